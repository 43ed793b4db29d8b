# frozen_string_literal: true

require 'json'
require 'securerandom'
require 'socket'
require_relative 'held'
require_relative 'patience'

module Claimq
  # What holds claims, and how it keeps them: its settings, and the heartbeat.
  class Holder
    include Patience

    PULSE = 0.05 # seconds
    GONE = "SELECT claimq_wait(0, 'claims', ?)"

    # `log` is called with a line when a loop starts and stops, and about each
    # failure, lock and full disk.  The connections run with synchronous=NORMAL:
    # a power cut may undo what was settled last, and it is done again.
    def initialize(path, owner: nil, lease_ms: 30_000, timeout: 30,
                   create: false, synchronous: 'normal',
                   log: ->(line) { warn("claimq: #{line}") })
      owner ||= "#{Socket.gethostname}:#{Process.pid}:#{SecureRandom.hex(3)}"
      @path = path
      @owner = Claimq.text(owner)
      @lease_ms = lease_ms
      @timeout = timeout
      @create = create
      @synchronous = synchronous
      @log = log
      @stopping = false
      @held = [] # a new array at every change
    end

    # End it soon.  May be called from any thread or signal handler.
    def stop
      @stopping = true
      @to_renewer&.write_nonblock('s')
    end

    private

    def connect
      Claimq.open(@path, timeout: @timeout).tap do |db|
        db.execute("PRAGMA synchronous=#{@synchronous}")
      end
    end

    # While the block runs, a thread renews what is held, at a third of the
    # lease, and looks twenty times a second whether somebody has taken some of
    # it away.  It gives back what is not begun once stop is called, and
    # everything at the end.
    def renewing(db)
      words, pipe = IO.pipe
      thread = Thread.new { renew(db, words) }
      @to_renewer = pipe
      yield
    ensure
      @to_renewer = nil # before it is closed: a signal may come at any time
      pipe.write('e')
      thread.join
      [words, pipe].each(&:close)
      @held = []
    end

    # The thread.  What fails is tried again the next time, or the lease ends.
    def renew(db, words)
      third = @lease_ms / 3000.0
      due = Claimq.now + third
      word = nil
      until word == 'e'
        word = IO.select([words], nil, nil, [third, PULSE].min) && words.getc
        if word || Claimq.now >= due
          due = Claimq.now + third
          @held.each { |job| renew_or_release(db, job, word == 'e') }
        else
          look_for_lost(db)
        end
      end
    end

    def renew_or_release(db, job, ending)
      if ending || (@stopping && job.take?)
        job.call(db, 'release(?, ?)')
      else
        job.call(db, 'renew(?, ?, ?)', @lease_ms)
      end
    rescue StandardError => e
      @log.call("renewing #{job.name}: #{e.message}")
    end

    # If one of the claims does not hold any more: which?  It writes nothing.
    def look_for_lost(db)
      jobs = @held.reject(&:lost?).first(1024)
      return if jobs.empty?

      ids = JSON.generate(jobs.map { |job| job.claim[0] })
      return if db.get_first_value(GONE, [ids]).zero?

      jobs.each { |job| job.call(db, 'guard(?, ?)') }
    rescue StandardError => e
      @log.call("looking whether the claims hold: #{e.message}")
    end
  end
end
