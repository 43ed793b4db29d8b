# frozen_string_literal: true

namespace :claimq do
  desc 'Run jobs until SIGTERM or Ctrl-C (QUEUES=a,b CONCURRENCY=1 LEASE=30)'
  task work: :environment do
    require 'claimq/command'
    Claimq::Command.work(ENV.slice('QUEUES', 'CONCURRENCY', 'LEASE')
                            .transform_keys { |name| name.downcase.to_sym })
  end
end
