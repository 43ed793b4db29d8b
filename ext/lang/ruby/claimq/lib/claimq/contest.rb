# frozen_string_literal: true

require_relative 'holder'

module Claimq
  # What the block of a Contest gets.
  class Guard < Held
    attr_reader :fencing_token

    def initialize(row, stopping)
      super
      @fencing_token = row['fencing_token']
      take?
    end
  end

  # At most one holder of a name: a lock, or the leader of several.
  #
  #     Claimq::Contest.new('app.db', 'nightly').acquire do |guard|
  #       work until guard.lost?
  #     end
  #
  # While the block runs a thread renews the lease; guard.lost? says that it is
  # over all the same (after a pause longer than the lease, or claimq_revoke).
  # guard.fencing_token is for what is written elsewhere.
  class Contest < Holder
    CLAIM = 'SELECT outcome, claim_id, lease_token, fencing_token
               FROM claimq_contest(?, ?, ?) WHERE kind=?'
    NAMES = %w[outcome claim_id lease_token fencing_token].freeze

    # The other options are those of Holder.
    def initialize(path, label, kind: 0, **options)
      super(path, **options)
      @contest = [label, @owner, @lease_ms, kind]
    end

    # Run the block while the name is held; returns what the block returns.  It
    # waits until the name is free; with wait: false, or if stop is called, nil.
    def acquire(wait: true)
      check_there
      db, second = Array.new(2) { connect }
      until (guard = ask(db))
        return if @stopping || !wait

        sleep(PULSE) # claimq_wait would stop the other threads
      end
      @held = [guard]
      renewing(second) { yield guard }
    ensure
      [db, second].compact.each(&:close)
    end

    private

    def ask(db)
      row = NAMES.zip(db.execute(CLAIM, @contest)[0].to_a).to_h
      Guard.new(row, -> { @stopping }) if row['outcome'] == 'claimed'
    end
  end
end
