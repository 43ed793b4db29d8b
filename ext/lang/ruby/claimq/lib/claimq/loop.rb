# frozen_string_literal: true

require_relative 'holder'

module Claimq
  # What the loops of Worker, Outbox and Session have in common: a subclass says
  # what is claimed (claim, wait), who handles it (handler_for), and what the
  # log calls it (scope).
  #
  # Each of `concurrency` threads has a connection: it handles what is held,
  # settles it, and takes the next in the same transaction.  One more thread,
  # with a connection of its own, renews all that is held.  SIGTERM and SIGINT,
  # or stop, end the loop: what is held and not begun is given back at once, and
  # what is at hand is finished.
  #
  # SQLite runs with Ruby's lock held, and so does claimq_wait.  So only a loop
  # that has nothing to do waits in it, a tenth of a second at a time; while a
  # handler runs, all waiting is done in Ruby.
  class Loop < Holder
    # The other options are those of Holder.
    def initialize(path, concurrency: 1, **options, &handler)
      raise ArgumentError, 'concurrency is 1 or more' unless concurrency >= 1

      super(path, **options)
      @concurrency = concurrency
      @handler = handler
      @changing = Mutex.new # @held
      @looking = Mutex.new
    end

    # Work until stop or a signal; returns how many jobs were begun.
    def run
      with_connections { |dbs| with_threads(dbs, false) }
    end

    # Work until nothing can be claimed now, for tests: what is delayed is not
    # waited for.  Returns how many jobs were begun.
    def drain
      with_connections { |dbs| with_threads(dbs, true) }
    end

    private

    def with_connections
      check_there
      before = %w[TERM INT].to_h { |name| [name, trap(name) { stop }] }
      dbs = Array.new(@concurrency + 1) { patiently('opening') { connect } }
      return 0 unless dbs.all? # it was stopped

      remember_file(@path)
      yield dbs
    ensure
      before&.each { |name, handler| trap(name, handler || 'DEFAULT') }
      dbs&.compact&.each(&:close)
    end

    def with_threads(dbs, drain)
      @log.call("#{@owner} starts: #{scope}, concurrency #{@concurrency}")
      second, first, *others = dbs
      begun = renewing(second) do
        threads = others.map { |db| quiet_thread { work(db, drain) } }
        work(first, drain) + threads.sum(&:value)
      ensure
        threads.each { |thread| thread.join rescue nil }
      end
      @log.call("#{@owner} stops: #{begun} begun")
      begun
    end

    # What ends it is raised by run.
    def quiet_thread(&block)
      Thread.new(&block).tap { |thread| thread.report_on_exception = false }
    end

    def work(db, drain)
      begun = 0
      until @stopping
        check_file
        if (job = @held.find(&:take?))
          begun += 1
          job.begin(db, @lease_ms)
          calls = job.handle(handler_for(job), &@log)
          # What cannot be settled before the end is given back.
          patiently("settling #{job.name}", @lease_ms / 1000.0) do
            settle(db, job, calls)
          end
        elsif patiently('looking for jobs') { look(db, drain) } == :nothing
          break if drain
        end
      end
      begun
    rescue Exception
      stop # the other threads as well
      raise
    end

    def handler_for(_job)
      @handler
    end

    # Claim; if there is nothing, wait, and claim the next time.
    def look(db, drain)
      @looking.synchronize do
        return if @held.any?(&:free?) # another thread has found some

        jobs = claim(db)
        busy = @held.any?
        hold(jobs)
        if jobs.any? then nil
        elsif busy then sleep(PULSE)
        elsif drain then :nothing
        else wait(db)
        end
      end
    end

    # Settle the job, and take the next ones with the same commit unless some
    # are left: one commit for each job.
    def settle(db, job, calls)
      jobs = Claimq.transaction(db) do
        job.settle(db, calls, &@log)
        @stopping || @held.any?(&:free?) ? [] : claim(db)
      end
      hold(jobs, job)
    end

    # These are held now, and that one is not any more.
    def hold(jobs, settled = nil)
      @changing.synchronize do
        @held = @held.reject { |job| job.equal?(settled) || job.vain? } + jobs
      end
      stop if @stopping && jobs.any? # these came too late
    end

    # The rows of a claim, as hashes.
    def rows(db, sql, values)
      names, *rows = db.execute2(sql, values)
      rows.map { |row| names.zip(row.to_a).to_h }
    end
  end
end
