# frozen_string_literal: true

require_relative 'held'

module Claimq
  # What the handler of a Worker gets.  `row` has all columns of the claim.
  class Job < Held
    include Payload

    PLAIN = [NilClass, String, Float, -2**63...2**63].freeze # what SQLite has
    OPEN = "SELECT id FROM (SELECT ? AS id) -- not ended, or never there
             WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
                                          WHERE name='claimq_job')
                OR EXISTS (SELECT 1 FROM claimq_job
                            WHERE job_id=id AND terminal_at_ms IS NULL)"

    attr_reader :row, :id, :lane, :attempt

    def initialize(row, stopping)
      super
      @row = row
      @id, @lane, @attempt = row.values_at('job_id', 'lane', 'attempt_index')
      @naps = 0
    end

    def name
      "job #{id}"
    end

    # The name that it was submitted with, or nil.
    def task
      JSON.parse(row['capabilities'])
          .find { |word| word.start_with?(TASK) }&.delete_prefix(TASK)
    end

    # What the step of this name gave when it was run the first time, in
    # whichever attempt; if it never was, run the block and store what it gives,
    # as JSON.  With a connection of the handler's own inside a transaction, the
    # step is stored if and only if that is committed.
    def step(name, db: own)
      stored = stored_step(db, name) ||
               db.execute("SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?)",
                          [*claim, name, JSON.generate(yield), @lease_ms]).first
      value = stored.is_a?(Hash) ? stored.values[0] : stored[0]
      value.is_a?(String) ? JSON.parse(value) : value
    rescue SQLite3::Exception => e
      @lost = true if Claimq.code(e) == 'claim_lost'
      raise
    end

    # Give the job back for that time, once: when it comes back, the handler
    # begins anew, and this call returns at once.  Call sleeps in the same order
    # each time.
    def sleep(milliseconds)
      till = step("sleep-#{@naps += 1}") { (now + milliseconds).ceil }
      raise Pause.new('delay_ms', till - now) if till > now
    end

    # Return if these jobs have ended, however; else give the job back until
    # they have, when the handler begins anew.
    def wait_for(*ids)
      ids.flatten!
      return if ids.none? { |id| own.execute(OPEN, [id]).any? }

      raise Pause.new('after', JSON.generate(ids))
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_REALTIME, :millisecond)
    end

    def stored_step(db, name)
      db.execute('SELECT value FROM claimq_steps WHERE job_id=? AND name=?',
                 [id, name]).first
    rescue SQLite3::SQLException => e # until there is a first step
      raise unless e.message.include?('no such table')
    end

    def completed(result, &log)
      result = JSON.generate(result) unless PLAIN.any? { |c| c === result }
      [["complete(?, ?, 'result', ?)", result], *super]
    rescue Exception => e
      log.call("#{name} is done, but its result cannot be stored: " +
               text_of(e))
      super
    end

    def retried(reason, delay, kind = nil)
      [["retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)", reason, delay, kind],
       ["retry(?, ?, 'the handler failed')"]]
    end
  end
end
