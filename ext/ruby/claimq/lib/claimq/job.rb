# frozen_string_literal: true

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

    def initialize(row, stopping)
      @row = row
      @id, @payload, @attempt =
        row.values_at('job_id', 'payload', 'attempt_index')
      @claim = row.values_at('claim_id', 'lease_token')
      @stopping = stopping
      @lost = false
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
      db.execute("SELECT claimq_#{verb}", [*claim, *values])
    rescue SQLite3::Exception => e
      raise unless Claimq.code(e) == 'claim_lost'

      @lost = true
    end
  end
end
