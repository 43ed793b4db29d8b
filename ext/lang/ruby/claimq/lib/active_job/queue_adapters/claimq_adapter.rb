# frozen_string_literal: true

require 'claimq/active_job'

module ActiveJob
  module QueueAdapters
    # Jobs in the database of your models:
    #
    #     config.active_job.queue_adapter = :claimq
    #
    # A job is added by a plain INSERT on Active Record's connection, so it
    # belongs to the transaction that is open there, and needs no extension.
    # Its queue is the lane, and the payload is what Active Job serializes.
    class ClaimqAdapter < (
      const_defined?(:AbstractAdapter) ? AbstractAdapter : Object
    )
      INSERT = 'INSERT INTO claimq_job(lane, payload, priority,
                                       available_at_ms, max_attempts)
                VALUES (?, ?, ?, ?, ?)'
      STEP = 'continuation'
      OF_A_RUN = %w[provider_job_id executions enqueued_at].freeze
      NO_JOB = 'the payload is no job of Active Job: it has to be JSON, such ' \
               'as {"job_class":"MailJob","job_id":"…","arguments":[]}'

      # `record`: the class of models whose database has the queue.
      # `max_attempts`: after how many attempts a job that raises has failed; 1,
      # because retry_on enqueues it anew.  nil: as the policy of the lane says.
      def initialize(record: 'ActiveRecord::Base', max_attempts: 1)
        super()
        @record = record.to_s
        @max_attempts = max_attempts
      end

      # The job belongs to the transaction; it need not wait for its end.
      def enqueue_after_transaction_commit?
        false
      end

      def enqueue(job)
        enqueue_at(job, nil)
      end

      # A job that enqueues itself, as retry_on does, ends with that: both
      # happen, or neither.
      def enqueue_at(job, timestamp)
        running = Claimq.current_job
        return insert(job, timestamp) if running.nil? || other?(running, job)

        record.transaction do
          insert(job, timestamp)
          running.complete
        end
      end

      def enqueue_all(jobs)
        record.transaction { jobs.each { |job| enqueue_one(job) } }
        jobs.size
      end

      # For continuations: the worker is to end, or the job is not its own now.
      def stopping?(_job = nil)
        job = Claimq.current_job
        !job.nil? && (job.stopping? || job.lost?)
      end

      # For continuations: store how far the job has got, instead of how far it
      # had got before.
      def checkpoint(job)
        running = Claimq.current_job
        was = running.json
        state = job.serialize.except(*OF_A_RUN)
                   .reject { |key, value| was[key] == value }
        record.transaction do
          if running.step(STEP) { state } != state
            record.connection.execute(
              "DELETE FROM claimq_steps #{of(running)}"
            )
            running.step(STEP) { state }
          end
        end
      end

      # A Claimq::Worker that runs the jobs of these queues.  The options are
      # those of Claimq::Worker.
      def worker(queues = nil, **options)
        file = record.connection.select_value(
          "SELECT file FROM pragma_database_list WHERE name='main'"
        )
        if file.empty?
          raise ArgumentError, 'a worker needs a database in a file'
        end

        queues = Array(queues || Base.queue_name_from_part(nil)).map(&:to_s)
        Claimq::Worker.new(file, queues, **options) { |job| run(job) }
      end

      # Run the job that a worker has claimed.
      def run(job)
        data = read(job)
        job.use { record.connection.raw_connection }
        Claimq.with_current_job(job) { Base.execute(data) }
        nil # what perform returns is not stored
      end

      private

      def record
        @record.constantize
      end

      # A job has one id for Active Job, however often it is enqueued.
      def other?(running, job)
        running.json['job_id'] != job.job_id
      end

      def enqueue_one(job)
        enqueue_at(job, job.scheduled_at&.to_f)
        job.successfully_enqueued = true
      end

      # Active Job serves small priorities first, and claimq large ones.
      def insert(job, timestamp)
        sql = record.sanitize_sql_array([
          INSERT, job.queue_name, JSON.generate(job.serialize),
          -job.priority.to_i, timestamp && (timestamp * 1000).ceil,
          @max_attempts
        ])
        job.provider_job_id = record.connection.insert(sql, 'claimq', 'job_id')
      end

      # The payload, and how far the job had got when its worker was killed.
      def read(job)
        data = job.json
        unless data.is_a?(Hash) && data['job_class'].is_a?(String)
          raise Claimq::Reject, NO_JOB
        end

        state = data['continuation'] ? kept(job) : {}
        data.merge(state, 'provider_job_id' => job.id)
      rescue JSON::ParserError
        raise Claimq::Reject, NO_JOB
      end

      # What checkpoint has stored.  (The table comes with the first step.)
      def kept(job)
        db = record.connection
        stored = db.table_exists?('claimq_steps') && db.select_value(
          "SELECT value FROM claimq_steps #{of(job)}"
        )
        stored ? JSON.parse(stored) : {}
      end

      def of(job)
        "WHERE job_id=#{job.id} AND name='#{STEP}'"
      end
    end
  end
end
