# frozen_string_literal: true

require_relative 'job'
require_relative 'loop'

module Claimq
  # The loop of a worker, whole.
  #
  #     Claimq::Worker.new('app.db', 'mail') { |job| puts job.payload }.run
  #
  # What the block does decides what becomes of the job: it returns (completed,
  # with its value as the result), raises Reject (to the dead letters), Release
  # (given back), or anything else (retried later; Retry says when).
  #
  # With several lanes it asks them in their order, each time from the first.
  # task gives the jobs of one name a block of their own; jobs with other names
  # wait for a worker that knows these.
  #
  # A lock that lasts longer than the timeout, or a full disk, does not end it:
  # it says so in the log, waits and goes on, and what it has done is settled
  # then.  A file that was removed or replaced ends it: its jobs are not there
  # any more.
  class Worker < Loop
    CLAIM = 'SELECT * FROM claimq_lane(?, ?, ?, ?)
              WHERE capabilities=? AND partition=?'
    WAIT = "SELECT claimq_wait(100, 'lanes', ?, 'capabilities', ?,
                               'partition', ?)"
    NO_HANDLER = 'no handler for jobs without a task'

    # The jobs are of all partitions, unless `partition` is a number or a list.
    # `batch` jobs are taken at a time.  All other options are those of Loop.
    def initialize(path, lanes, batch: 1, capabilities: [], partition: nil,
                   **options, &handler)
      super(path, **options, &handler)
      @lanes = Array(lanes)
      @batch = batch
      @capabilities = capabilities
      @partition = partition.is_a?(Array) ? JSON.generate(partition) : partition
      @tasks = {}
    end

    # Jobs that were submitted with this task are handled by this block.
    def task(name, &handler)
      @tasks[name.to_s] = handler
      self
    end

    private

    def scope
      "#{@lanes.size == 1 ? 'lane' : 'lanes'} #{@lanes.join(', ')}"
    end

    def handler_for(job)
      @tasks[job.task] || @handler || lambda do |_|
        @log.call("#{job.name}: #{NO_HANDLER}")
        raise Retry, NO_HANDLER
      end
    end

    def claim(db)
      @lanes.each do |lane|
        all = rows(db, CLAIM, [lane, @owner, @lease_ms, @batch, *can])
        return all.map { |row| Job.new(row, -> { @stopping }) } if all.any?
      end
      []
    end

    def wait(db)
      db.execute(WAIT, [JSON.generate(@lanes), *can])
    end

    # What it can do, and of which partitions.
    def can
      words = @capabilities + @tasks.keys.map { |name| TASK + name }
      [JSON.generate(words), @partition]
    end
  end
end
