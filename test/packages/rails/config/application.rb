require 'logger' # Rails 6.1 forgets to
require 'rails'
require 'active_record/railtie'
require 'active_job/railtie'
require 'claimq'
if ENV['BESIDE'] # the queue of delayed_job
  require 'delayed_job'
  require 'delayed_job_active_record'
end

module Shop
  # A shop whose orders and jobs are in one file: DATABASE names it.
  class Application < Rails::Application
    config.load_defaults [Rails::VERSION::MAJOR, Rails::VERSION::MINOR].join('.')
    config.eager_load = true
    config.logger = Logger.new(nil)
    config.secret_key_base = 'for tests'
    config.active_job.queue_adapter = ENV['BESIDE'] ? :delayed_job : :claimq
    config.active_record.schema_format = ENV.fetch('FORMAT', 'ruby').to_sym
  end
end
