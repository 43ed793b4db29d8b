# frozen_string_literal: true

require 'json'
require 'securerandom'
require 'socket'

module Claimq
  # Raised by a handler: try again, after delay_ms if it is given, else after
  # the job's own backoff.
  class Retry < StandardError
    attr_reader :delay_ms

    def initialize(reason = 'retry', delay_ms: nil)
      super(reason)
      @delay_ms = delay_ms
    end
  end

  # Raised by a handler: never try again; the job becomes a dead letter.
  class Reject < StandardError; end

  # What a handler gets.  `row` has all columns of the claim.
  class Job
    attr_reader :row, :id, :payload, :attempt, :claim
    attr_writer :lost

    def initialize(row, stopping)
      @row = row
      @id, @payload, @attempt =
        row.values_at('job_id', 'payload', 'attempt_index')
      @claim = row.values_at('claim_id', 'lease_token')
      @stopping = stopping
    end

    # True when somebody else has taken the job over: the handler should stop,
    # nothing that it still does counts.
    def lost?
      @lost
    end

    # True when the worker is to end, and waits for this handler.
    def stopping?
      @stopping.call
    end

    # Complete it on the handler's own connection, inside a transaction with
    # the handler's writes: both happen, or neither.
    def complete(db)
      db.execute('SELECT claimq_complete(?, ?)', claim)
    end
  end

  # The loop of a worker, whole.
  #
  #     Claimq::Worker.new('app.db', 'mail') { |job| puts job.payload }.run
  #
  # What the block does decides what becomes of the job: it returns (completed,
  # with its value as the result), raises Reject (to the dead letters), or
  # raises anything else (retried later; Retry says when).
  #
  # The connection of the loop claims, waits and settles; it settles a job and
  # takes the next one in the same transaction.  A thread with a connection of
  # its own renews what is held at a third of the lease.  If somebody else has
  # taken a job over (after a pause longer than the lease, or by claimq_revoke),
  # job.lost? says so, and the worker goes on with the next job.
  #
  # SIGTERM and SIGINT, or stop, end the loop: what is held and not begun is
  # given back at once, and the job at hand is finished.
  #
  # SQLite runs with Ruby's lock held, and so does claimq_wait: other threads
  # run between its calls, ten times a second.  Give a worker a process.
  class Worker
    CLAIM = <<~SQL
      SELECT * FROM claimq_lane
       WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=? AND capabilities=?
         AND partition=?
    SQL
    WAIT = <<~SQL
      SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?, 'partition', ?)
    SQL
    WAIT_MS = 100

    def initialize(path, lane, owner: nil, lease_ms: 30_000, batch: 1,
                   capabilities: [], partition: 0, &handler)
      @path = path
      @lane = lane
      # A binary string, as the name of the host is, would be bound as a BLOB.
      host = Socket.gethostname.dup.force_encoding(Encoding::UTF_8)
      @owner = owner || "#{host}:#{Process.pid}:#{SecureRandom.hex(3)}"
      @lease_ms = lease_ms
      @batch = batch
      @scope = [JSON.generate(capabilities), partition]
      @handler = handler
      @stopping = false
      @begun = 0
      @lock = Mutex.new # for these two:
      @waiting = []     # held, and not begun
      @current = nil
    end

    # End run soon.  May be called from any thread or signal handler.
    def stop
      @stopping = true
    end

    # Work until stop or a signal; returns how many jobs were begun.
    def run
      before = %w[TERM INT].to_h { |name| [name, trap(name) { stop }] }
      db = Claimq.open(@path)
      second = Claimq.open(@path)
      @ended = false
      renewer = Thread.new { renew(second) }
      step(db) until @stopping
      @begun
    ensure
      before.each { |name, handler| trap(name, handler || 'DEFAULT') }
      @stopping = true
      take([@current].compact) # it could not be settled
      @ended = true
      renewer&.join
      [db, second].compact.each(&:close)
    end

    private

    # Work on the next job that is held, or take some, or wait for one.
    def step(db)
      if (job = start)
        settle(db, job, *handle(job))
      elsif take(claim(db)).empty?
        db.execute(WAIT, [WAIT_MS, @lane, *@scope])
      end
    end

    def claim(db)
      names, *rows = db.execute2(CLAIM, [@lane, @owner, @lease_ms, @batch,
                                         *@scope])
      rows.map { |row| Job.new(names.zip(row.to_a).to_h, -> { @stopping }) }
    end

    # These are held from now on, and nothing is at hand.
    def take(jobs)
      @lock.synchronize do
        @current = nil
        @waiting.concat(jobs)
      end
      jobs
    end

    # The next job, which is at hand then; nil if there is none.
    def start
      @lock.synchronize do
        until @stopping || @waiting.empty?
          job = @waiting.shift
          next if job.lost?

          @begun += 1
          return @current = job
        end
      end
      nil
    end

    # Call the handler; returns the verb that settles, and its arguments.
    def handle(job)
      result = @handler.call(job)
      plain = [Integer, Float, String, NilClass].any? { |c| c === result }
      ["complete(?, ?, 'result', ?)", plain ? result : JSON.generate(result)]
    rescue Reject => e
      ['reject(?, ?, ?)', e.message]
    rescue StandardError => e
      delay = e.is_a?(Retry) ? e.delay_ms : nil
      ["retry(?, ?, ?, 'delay_ms', ?)", e.message, delay]
    end

    # Settle the job, and take the next one with the same commit.
    def settle(db, job, verb, *values)
      jobs = []
      Claimq.transaction(db) do
        call(db, job, verb, *values) unless job.lost?
        jobs = claim(db) if @waiting.empty? && !@stopping
      end
      take(jobs)
    end

    # A lost claim is remembered, and is no error.
    def call(db, job, verb, *values)
      db.execute("SELECT claimq_#{verb}", [*job.claim, *values])
    rescue SQLite3::Exception => e
      raise unless Claimq.code(e) == 'claim_lost'

      job.lost = true
    end

    # The thread: renews what is held; gives back what is not begun when the
    # worker is stopping.  What fails here for another reason than a lost claim
    # is tried again at the next beat, or the lease ends.
    def renew(db)
      due = Claimq.now + (@lease_ms / 3000.0)
      loop do
        ended = @ended
        give_back(db) if @stopping
        break if ended

        sleep([0.05, @lease_ms / 3000.0].min)
        next if Claimq.now < due

        due = Claimq.now + (@lease_ms / 3000.0)
        held = @lock.synchronize { [@current, *@waiting].compact }
        held.each { |job| attempt(db, job, 'renew(?, ?, ?)', @lease_ms) }
      end
    end

    def give_back(db)
      jobs = @lock.synchronize { @waiting.shift(@waiting.size) }
      jobs.each { |job| attempt(db, job, 'release(?, ?)') }
    end

    def attempt(db, job, verb, *values)
      call(db, job, verb, *values)
    rescue SQLite3::Exception
      nil
    end
  end
end
