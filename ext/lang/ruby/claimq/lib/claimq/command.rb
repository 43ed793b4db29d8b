# frozen_string_literal: true

require 'optparse'

module Claimq
  # The worker of an application: claimq-worker, and rake claimq:work.
  module Command
    USAGE = <<~TEXT
      Usage: claimq-worker [options]

      Runs the jobs of a Rails application whose queue_adapter is :claimq until
      SIGTERM or Ctrl-C.  Call it in the directory of the application.

    TEXT

    module_function

    def options(arguments)
      found = {}
      OptionParser.new(USAGE) do |parser|
        parser.on('--queues A,B', 'the queues: the first that has any is',
                  'served first (the default queue)')
        parser.on('--concurrency N', Integer,
                  'how many jobs are run at a time, in threads (1)')
        parser.on('--lease SECONDS', Float,
                  'after that the job of a worker that was killed is run by',
                  'another (30); a living worker renews its lease')
        parser.on('--batch', 'end when no job is due')
        parser.on('--require FILE', 'what loads the application',
                  '(./config/environment)')
      end.parse!(arguments, into: found)
      found
    end

    def work(options)
      adapter = ::ActiveJob::Base.queue_adapter
      unless adapter.respond_to?(:worker)
        abort "the queue_adapter is #{adapter.class}, and not claimq's"
      end
      worker = adapter.worker(
        options[:queues]&.split(','),
        concurrency: Integer(options[:concurrency] || 1),
        lease_ms: (Float(options[:lease] || 30) * 1000).round
      )
      options[:batch] ? worker.drain : worker.run
    end
  end
end
