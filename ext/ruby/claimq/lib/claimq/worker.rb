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
      @taken = Mutex.new
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

    # True for the first who asks: the loop of the worker, which begins the job,
    # or the thread that gives it back when the worker is stopping.
    def take?
      !lost? && @taken.try_lock
    end

    # Call a verb.  That the claim is lost is remembered, and is no error.
    def call(db, verb, *values)
      db.execute("SELECT claimq_#{verb}", [*claim, *values]) unless lost?
    rescue SQLite3::Exception => e
      raise unless Claimq.code(e) == 'claim_lost'

      @lost = true
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
    PLAIN = [NilClass, String, Float, -2**63...2**63].freeze # what SQLite has

    def initialize(path, lane, owner: nil, lease_ms: 30_000, batch: 1,
                   capabilities: [], partition: 0, &handler)
      @path = path
      @lane = lane
      @owner = owner || [text(Socket.gethostname), Process.pid,
                         SecureRandom.hex(3)].join(':')
      @lease_ms = lease_ms
      @batch = batch
      @scope = [JSON.generate(capabilities), partition]
      @handler = handler
      @stopping = false
      @held = [] # a new array at every change
    end

    # End run soon.  May be called from any thread or signal handler.
    def stop
      @stopping = true
      @to_renewer&.write_nonblock('s')
    end

    # Work until stop or a signal; returns how many jobs were begun.
    def run
      before = %w[TERM INT].to_h { |name| [name, trap(name) { stop }] }
      db = Claimq.open(@path)
      second = Claimq.open(@path)
      words, @to_renewer = IO.pipe
      renewer = Thread.new { renew(second, words) }
      work(db)
    ensure
      before.each { |name, handler| trap(name, handler || 'DEFAULT') }
      @to_renewer&.write('e')
      renewer&.join
      [db, second, words, @to_renewer].compact.each(&:close)
      @to_renewer = nil
    end

    private

    def work(db)
      begun = 0
      until @stopping
        if (job = @held.find(&:take?))
          begun += 1
          settle(db, job, *handle(job))
        elsif (@held = claim(db)).empty?
          db.execute(WAIT, [WAIT_MS, @lane, *@scope])
        end
      end
      begun
    end

    def claim(db)
      names, *rows = db.execute2(CLAIM, [@lane, @owner, @lease_ms, @batch,
                                         *@scope])
      rows.map { |row| Job.new(names.zip(row.to_a).to_h, -> { @stopping }) }
    end

    # Call the handler; returns the verb that settles, and its arguments.
    def handle(job)
      result = @handler.call(job)
      result = JSON.generate(result) unless PLAIN.any? { |c| c === result }
      ["complete(?, ?, 'result', ?)", result]
    rescue Reject => e
      ['reject(?, ?, ?)', text(e.message)]
    rescue StandardError => e
      delay = e.is_a?(Retry) ? e.delay_ms : nil
      ["retry(?, ?, ?, 'delay_ms', ?)", text(e.message), delay]
    end

    # A binary string would be bound as a BLOB.
    def text(string)
      string.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # Settle the job, and take the next ones with the same commit unless some
    # are left.
    def settle(db, job, verb, *values)
      held = nil
      Claimq.transaction(db) do
        job.call(db, verb, *values)
        held = @held.reject { |other| other.equal?(job) || other.lost? }
        held = claim(db) if held.empty? && !@stopping
      end
      @held = held
    end

    # The thread.  It renews what is held, and gives back what is not begun once
    # the worker is stopping, and everything at the end.  What fails is tried
    # again at the next beat, or the lease ends.
    def renew(db, words)
      ended = false
      until ended
        heard = IO.select([words], nil, nil, @lease_ms / 3000.0)
        ended = heard && words.getc == 'e'
        @held.each do |job|
          if ended || (@stopping && job.take?)
            job.call(db, 'release(?, ?)')
            job.lost = true
          else
            job.call(db, 'renew(?, ?, ?)', @lease_ms)
          end
        rescue SQLite3::Exception
          next
        end
      end
    end
  end
end
