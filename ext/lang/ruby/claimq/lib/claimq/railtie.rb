# frozen_string_literal: true

require_relative 'active_record' if defined?(ActiveRecord)
require_relative 'active_job' if defined?(ActiveJob)

module Claimq
  # In Rails all is done by `gem 'claimq'`.
  class Railtie < ::Rails::Railtie
    rake_tasks { load File.expand_path('tasks.rake', __dir__) }
  end
end
