# frozen_string_literal: true

require 'active_record'
require 'claimq' unless defined?(Claimq::Worker)

module Claimq
  # What Active Record has to know of claimq: the extension is loaded into each
  # connection to SQLite, and claimq's tables are no part of the schema.
  module ActiveRecord
    INIT = 'SELECT claimq_init()'
    OURS = "SELECT type, name, sql FROM sqlite_schema
             WHERE sql IS NOT NULL AND (name='claimq' OR name GLOB 'claimq_*')
               AND name<>'claimq_meta'
             ORDER BY type='trigger', type='view', type='index', rowid"
    KINDS = %w[table view].freeze

    module_function

    def ours?(name)
      name.match?(/\Aclaimq(_|\z)/)
    end

    def queue?(connection)
      connection.adapter_name == 'SQLite' &&
        connection.table_exists?('claimq_meta')
    end

    # Remove claimq's tables, with all that is in them.
    def drop(connection)
      drop_all(connection)
      connection.execute('DROP TABLE IF EXISTS claimq_meta')
    end

    # No rows, whoever holds them; the tables and the settings stay.  A DELETE
    # of what is held is refused, so the tables are made anew.
    def empty(connection)
      connection.transaction do
        drop_all(connection).each { |_, _, sql| connection.execute(sql) }
      end
    end

    # Returns what there was.
    def drop_all(connection)
      connection.select_rows(OURS).each do |kind, name, _|
        if KINDS.include?(kind)
          connection.execute("DROP #{kind} IF EXISTS #{name}")
        end
      end
    end

    # Of SQLite3Adapter.
    module Connection
      # For db:truncate_all and db:seed:replant.
      def truncate_tables(*names)
        ours, others = names.partition { |name| ActiveRecord.ours?(name) }
        super(*others)
        ActiveRecord.empty(self) if ours.any?
      end

      private

      # A connection that cannot have the extension can still read, and enqueue.
      def configure_connection
        super
        db = @raw_connection || @connection
        Claimq.load(db)
        # Before sqlite3 2.0, Active Record waits for locks inside SQLite.
        if @config[:timeout] && !db.respond_to?(:busy_handler_timeout=)
          Claimq.wait_for_locks(db, @config[:timeout].to_i / 1000.0)
        end
      rescue ::SQLite3::Exception => e
        ::ActiveRecord::Base.logger&.warn("claimq was not loaded: #{e.message}")
      end
    end

    # Of SchemaDumper: schema.rb says that there is a queue, and no more.
    module Dumper
      private

      def ignored?(name)
        super || ActiveRecord.ours?(name)
      end

      def trailer(stream)
        stream.puts(%(  execute "#{INIT}")) if ActiveRecord.queue?(@connection)
        super
      end
    end

    # Of SQLiteDatabaseTasks: so does structure.sql, in a comment, because it is
    # read by the program sqlite3, which has no extension.
    module Structure
      MARK = "-- claimq: #{INIT};"
      REST = "SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL
                AND name NOT GLOB 'sqlite_*' AND tbl_name NOT IN (%s)
               ORDER BY tbl_name, type<>'table', type, name"

      def structure_dump(filename, extra_flags)
        db = ::ActiveRecord::Base.connection
        return super unless ActiveRecord.queue?(db)

        ignored = ::ActiveRecord::SchemaDumper.ignore_tables
        names = db.data_sources.select do |name|
          ActiveRecord.ours?(name) || ignored.any? { |one| one === name }
        end
        names = names.map { |name| db.quote(name) }.join(', ')
        File.write(filename, [*db.select_values(REST % names), MARK, '']
                             .join("\n"))
      end

      def structure_load(filename, extra_flags)
        super
        return unless File.readlines(filename, chomp: true).include?(MARK)

        Claimq.open(File.expand_path(db_config.database, root)).close
      end
    end

    ActiveSupport.on_load(:active_record_sqlite3adapter) do
      prepend Connection
      ::ActiveRecord::SchemaDumper.prepend Dumper
    end
    ActiveSupport.on_load(:active_record) do
      ::ActiveRecord::Tasks::SQLiteDatabaseTasks.prepend Structure
    end
  end
end
