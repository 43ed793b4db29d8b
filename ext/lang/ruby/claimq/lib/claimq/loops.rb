# frozen_string_literal: true

require_relative 'loop'

module Claimq
  # A message of an outbox, or of a session: a row of the claim.
  class Message
    include Payload

    attr_reader :row

    def initialize(row)
      @row = row
    end

    # Its number, which grows.
    def seq
      row['seq'] || row['enqueue_seq']
    end
  end

  # The messages of a claim, in order.
  class Messages < Held
    include Enumerable

    attr_reader :messages

    def initialize(rows, stopping)
      super(rows[0], stopping)
      @messages = rows.map { |row| Message.new(row) }
    end

    def each(&block)
      messages.each(&block)
    end
  end

  # What the handler of an Outbox gets: messages of one partition.
  class Batch < Messages
    def partition
      messages[0].row['partition']
    end

    # If the handler fails later, this message does not come again, provided
    # that those before it are done as well.
    def done(message)
      (@done ||= []) << message
    end

    private

    def processed
      messages.take_while { |message| @done&.include?(message) }.size
    end

    def released(delay)
      return super if processed.zero?

      [["retry(?, ?, 'released', 'delay_ms', ?, 'processed', ?)", delay.to_i,
        processed]]
    end

    def rejected(reason)
      [["reject(?, ?, ?, 'processed', ?)", reason, processed],
       ["reject(?, ?, 'rejected', 'processed', ?)", processed]]
    end

    def retried(reason, delay, _kind = nil)
      [["retry(?, ?, ?, 'delay_ms', ?, 'processed', ?)", reason, delay,
        processed],
       ["retry(?, ?, 'the handler failed', 'processed', ?)", processed]]
    end
  end

  # The loop of an outbox: the messages of each partition in order, a batch at a
  # time; with `concurrency`, of several partitions at once.
  #
  #     Claimq::Outbox.new('app.db', 'orders') do |batch|
  #       batch.each { |message| send(message.json) && batch.done(message) }
  #     end.run
  #
  # If the block returns, the batch is completed.  If it raises, it is retried
  # from the first message that is not done; Reject makes letters of these.
  class Outbox < Loop
    CLAIM = 'SELECT * FROM claimq_outbox(?, ?, ?, ?) WHERE partition=?'
    WAIT = "SELECT claimq_wait(100, 'outbox', ?, 'partition', ?)"

    # `max`: of a batch; nil: as claimq_queue says.  The other options are those
    # of Loop.
    def initialize(path, queue, max: nil, partition: nil, **options, &handler)
      super(path, **options, &handler)
      @queue = queue
      @max = max
      @partition = partition
    end

    private

    def scope
      "outbox #{@queue}"
    end

    def claim(db)
      all = rows(db, CLAIM, [@queue, @owner, @lease_ms, @max, @partition])
      all.empty? ? [] : [Batch.new(all, -> { @stopping })]
    end

    def wait(db)
      db.execute(WAIT, [@queue, @partition])
    end
  end

  # What the handler of a Session gets: what is next of one conversation.
  class Turn < Messages
    def session
      messages[0].row['session']
    end
  end

  # The loop of sessions: the work of each conversation in order, one turn at a
  # time; with `concurrency`, of several conversations at once.
  #
  #     Claimq::Session.new('app.db') do |turn|
  #       answer(turn.session, turn.map(&:payload))
  #     end.run
  class Session < Loop
    CLAIM = "SELECT * FROM claimq(?, ?, ?) WHERE serial=1 AND take='any'"
    WAIT = "SELECT claimq_wait(100, 'session', ?, 'serial', 1, 'take', 'any')"

    # `session`: only of this one.  The other options are those of Loop.
    def initialize(path, session: nil, **options, &handler)
      super(path, **options, &handler)
      @session = session
    end

    private

    def scope
      @session ? "session #{@session}" : 'any session'
    end

    def claim(db)
      all = rows(db, CLAIM, [@session, @owner, @lease_ms])
      all.empty? ? [] : [Turn.new(all, -> { @stopping })]
    end

    def wait(db)
      db.execute(WAIT, [@session])
    end
  end
end
