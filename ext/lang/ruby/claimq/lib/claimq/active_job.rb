# frozen_string_literal: true

require 'active_job'
require_relative 'active_record'

# claimq for Active Job:
#
#     config.active_job.queue_adapter = :claimq
#
# In Rails, `gem 'claimq'` loads this file; elsewhere, require it.
module Claimq
  # The Claimq::Job of the Active Job that this thread runs: its lease (lost?),
  # its steps, its end (complete), all on Active Record's connection.  nil
  # outside of a job.
  def self.current_job
    Thread.current.thread_variable_get(:claimq_job)
  end

  def self.with_current_job(job)
    before = current_job
    Thread.current.thread_variable_set(:claimq_job, job)
    yield
  ensure
    Thread.current.thread_variable_set(:claimq_job, before)
  end

  # Of ActiveJob::Continuable (Rails 8.1): how far a job has got is stored at
  # each checkpoint, so that it goes on there if its worker is killed.
  module Checkpoints
    def checkpoint!
      if Claimq.current_job && queue_adapter.respond_to?(:checkpoint)
        queue_adapter.checkpoint(self)
      end
      super
    end
  end

  ActiveSupport.on_load(:active_job_continuable) { prepend Checkpoints }
end

module ActiveJob
  module QueueAdapters
    autoload :ClaimqAdapter, 'active_job/queue_adapters/claimq_adapter'
  end
end
