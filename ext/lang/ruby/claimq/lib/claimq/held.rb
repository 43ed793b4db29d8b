# frozen_string_literal: true

require 'json'

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

  # Raised by a handler: give it back without using an attempt, and let nobody
  # have it before delay_ms are over.
  class Release < Retry
    def initialize(reason = 'release', delay_ms: nil)
      super
    end
  end

  # Raised by a handler: never try again; the job becomes a dead letter.
  class Reject < StandardError; end

  # Raised by job.sleep and job.wait_for, and not for handlers to rescue: the
  # job is given back, and its handler begins anew when it comes back.
  class Pause < Exception
    attr_reader :calls

    def initialize(option, value)
      super("#{option} #{value}")
      @calls = [['release(?, ?, ?, ?)', option, value],
                ['retry(?, ?, ?)', "cannot wait: #{message}"]]
    end
  end

  # What a row of a claim carries.
  module Payload
    def payload
      row['payload']
    end

    # The payload, parsed.
    def json
      JSON.parse(payload.to_s)
    end

    # What was given as `headers`; {} if there are none.
    def headers
      JSON.parse(row['headers'] || '{}')
    end
  end

  # What a loop holds by one claim, and hands to a handler.
  #
  # A handler is somebody else's program: it may return anything, raise
  # anything, and the text of what it raises may raise in turn.  None of that
  # may end the worker, and all of it counts: what came of a job is a list of
  # calls, the best first, and if SQLite or claimq refuses the values of one,
  # the next is made.  The last has no value of the handler's.
  class Held
    MAX_DELAY_MS = 2**53 - 1

    attr_reader :claim

    def initialize(row, stopping)
      @claim = row.values_at('claim_id', 'lease_token')
      @stopping = stopping
      @lost = false
      @taken = false
      @taking = Mutex.new # a thread that ends frees what it has locked
    end

    # In the log.
    def name
      "claim #{claim[0]}"
    end

    # The connection of the thread in which the handler runs.
    def begin(db, lease_ms)
      @db, @lease_ms = db, lease_ms
    end

    # True when somebody else has taken it over, or it was cancelled: the
    # handler should stop, nothing that it still does counts.
    def lost?
      @lost
    end

    # True when the worker is to end, and waits for this handler.
    def stopping?
      @stopping.call
    end

    # Let the handler's calls be made on another connection: the one that the
    # block returns at that time.
    def use(&connection)
      @own = connection
    end

    # Complete it on the handler's own connection, inside a transaction with
    # the handler's writes: both happen, or neither.
    def complete(db = own)
      db.execute('SELECT claimq_complete(?, ?)', claim)
    end

    # True for the first who asks: the thread that begins it, or the one that
    # gives it back when the loop is stopping.
    def take?
      @taking.synchronize { free? && (@taken = true) }
    end

    # Not taken yet?
    def free?
      !lost? && !@taken
    end

    # Lost before anybody has taken it?
    def vain?
      lost? && !@taken
    end

    # Call a verb.  That the claim is lost is remembered, and is no error.
    def call(db, verb, *values)
      db.execute("SELECT claimq_#{verb}", [*claim, *values]) unless lost?
    rescue SQLite3::Exception => e
      raise unless Claimq.code(e) == 'claim_lost'

      @lost = true
    end

    # Call the handler; returns the calls that settle what is held.
    def handle(handler, &log)
      completed(handler.call(self), &log)
    rescue Pause => e
      e.calls
    rescue Release => e
      released(delay_of(e, &log))
    rescue Reject => e
      rejected(text_of(e))
    rescue Retry => e
      retried(text_of(e), delay_of(e, &log))
    rescue Exception => e # exit does not end the worker, either
      log.call("#{name} failed: #{trace_of(e)}")
      kind, reason = describe(e)
      retried(reason, nil, kind)
    end

    # Make the first of the calls whose values are accepted.
    def settle(db, calls, &log)
      first, *others = calls
      call(db, *first)
    rescue StandardError => e
      raise if others.empty? || Claimq.waiting_cures?(e)

      log.call("#{name}: #{first[0]} was refused: #{e.message}")
      settle(db, others, &log)
    end

    private

    def own
      @own ? @own.call : @db
    end

    def completed(_result)
      [['complete(?, ?)']]
    end

    def released(delay)
      [["release(?, ?, 'delay_ms', ?)", delay], ['release(?, ?)']]
    end

    def rejected(reason)
      [['reject(?, ?, ?)', reason], ["reject(?, ?, 'rejected')"]]
    end

    def retried(reason, delay, _kind = nil)
      [["retry(?, ?, ?, 'delay_ms', ?)", reason, delay],
       ["retry(?, ?, 'the handler failed')"]]
    end

    # The delay of a Retry in whole milliseconds; nil: the backoff.
    def delay_of(error, &log)
      return if error.delay_ms.nil?

      delay = error.delay_ms.ceil
      delay.clamp(0, MAX_DELAY_MS).tap do |fits|
        unless fits == delay
          log.call("#{name}: the delay is #{fits} instead of #{delay}")
        end
      end
    rescue Exception # no number, or not a finite one
      log.call("#{name}: the delay is no finite number: there is none, or " \
               'the backoff is used')
      nil
    end

    # The class of an error, and its text with the end of the trace.
    def describe(error)
      frames = Array(error.backtrace).first(3).map { |line| "\n  #{line}" }
      name = error.class.name || 'Exception'
      [Claimq.text(name).byteslice(0, 64).scrub(''),
       Claimq.text("#{name}: #{text_of(error)}#{frames.join}")]
    rescue Exception
      ['Exception', text_of(error)]
    end

    def trace_of(error)
      Claimq.text(error.full_message(highlight: false, order: :top))
    rescue Exception
      text_of(error)
    end

    def text_of(error)
      Claimq.text(error.message)
    rescue Exception
      "#{error.class.name}, whose text raises an exception"
    end
  end
end
