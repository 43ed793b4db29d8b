# frozen_string_literal: true

require 'rails/generators/active_record'

module Claimq
  # rails generate claimq:install
  class InstallGenerator < ::Rails::Generators::Base
    include ::ActiveRecord::Generators::Migration

    source_root File.expand_path('templates', __dir__)
    desc 'Makes claimq the queue of Active Job, and a migration for its tables'

    def use_it
      environment 'config.active_job.queue_adapter = :claimq'
    end

    def create_migration_file
      migration_template 'create_claimq.rb.tt', 'db/migrate/create_claimq.rb'
    end
  end
end
