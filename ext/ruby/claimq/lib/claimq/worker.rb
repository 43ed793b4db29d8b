# frozen_string_literal: true

require 'json'
require 'securerandom'
require 'socket'
require_relative 'job'

module Claimq
  # The loop of a worker, whole.
  #
  #     Claimq::Worker.new('app.db', 'mail') { |job| puts job.payload }.run
  #
  # What the block does decides what becomes of the job: it returns (completed,
  # with its value as the result), raises Reject (to the dead letters), or
  # raises anything else (retried later; Retry says when).
  #
  # One connection claims, waits and settles; it settles a job and takes the
  # next one in the same transaction.  A thread with a connection of its own
  # renews what is held at a third of the lease.  If somebody else has taken a
  # job over (after a pause longer than the lease, or by claimq_revoke),
  # job.lost? says so, and the worker goes on with the next job.  SIGTERM and
  # SIGINT, or stop, end the loop: what is held and not begun is given back at
  # once, and the job at hand is finished.
  #
  # SQLite runs with Ruby's lock held, and so does claimq_wait: other threads
  # run between its calls, ten times a second.  Give a worker a process.
  class Worker
    CLAIM = 'SELECT * FROM claimq_lane(?, ?, ?, ?)
              WHERE capabilities=? AND partition=?'
    WAIT = "SELECT claimq_wait(100, 'lane', ?, 'capabilities', ?,
                               'partition', ?)"
    PLAIN = [NilClass, String, Float, -2**63...2**63].freeze # what SQLite has

    def initialize(path, lane, owner: nil, lease_ms: 30_000, batch: 1,
                   capabilities: [], partition: 0, &handler)
      owner ||= "#{Socket.gethostname}:#{Process.pid}:#{SecureRandom.hex(3)}"
      can = [JSON.generate(capabilities), partition]
      @path = path
      @claim = [lane, text(owner), lease_ms, batch, *can]
      @wait = [lane, *can]
      @lease_ms = lease_ms
      @handler = handler
      @stopping = false
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
      @held = [] # a new array at every change
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
          verb, *values = handle(job)
          @held = Claimq.transaction(db) do # one commit for each job
            job.call(db, verb, *values)
            left = @held.reject { |other| other.equal?(job) || other.lost? }
            left.empty? && !@stopping ? claim(db) : left
          end
        elsif (@held = claim(db)).empty?
          db.execute(WAIT, @wait)
        end
      end
      begun
    end

    def claim(db)
      names, *rows = db.execute2(CLAIM, @claim)
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
      delay = e.delay_ms if e.is_a?(Retry)
      ["retry(?, ?, ?, 'delay_ms', ?)", text(e.message), delay]
    end

    # A binary string would be bound as a BLOB.
    def text(string)
      string.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # The thread.  It renews what is held, and gives back what is not begun once
    # the worker is stopping, and everything at the end.  What fails is tried
    # again the next time, or the lease ends.
    def renew(db, words)
      word = nil
      until word == 'e'
        word = words.getc if IO.select([words], nil, nil, @lease_ms / 3000.0)
        @held.each do |job|
          if word == 'e' || (@stopping && job.take?)
            job.call(db, 'release(?, ?)')
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
