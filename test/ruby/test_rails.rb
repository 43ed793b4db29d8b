# frozen_string_literal: true

# claimq for Rails, in an application (test/packages/rails) with a real
# database: the adapter of Active Job, the worker, the generator, the schema.
#
#     RUBY=... ruby test_rails.rb
#
# RUBY runs other processes; the current directory is a copy of the application.
# Where delayed_job is there, too, what becomes of its job when a worker is
# killed is printed, as a note.
require 'fileutils'
require 'open3'
require_relative 'support'

RUBY = ENV.fetch('RUBY', 'ruby')
ENV['DATABASE'] = File.expand_path('shop.db')
ENV['SAID'] = File.expand_path('said')
ENV['RAILS_ENV'] = 'development'
WORKER = Gem.bin_path('claimq', 'claimq-worker')

RAKE = <<~RUBY
  ENV['DISABLE_DATABASE_ENVIRONMENT_CHECK'] = '1'
  require './config/environment'
  Rails.application.load_tasks
  ActiveRecord::Migration.verbose = false
  ALL = ActiveRecord.version >= Gem::Version.new('7.1') ? [:all] : []
  def rake(name)
    Rake::Task.tasks.each(&:reenable)
    Rake::Task[name].invoke
  end
RUBY

# Another process; returns its output.
def run_ruby(*arguments, **environment)
  out, status = Open3.capture2e(environment.transform_keys(&:to_s),
                                RUBY, *arguments)
  raise out unless status.success?

  out
end

FileUtils.rm_f(Dir['shop.db*', 'said', 'db/schema.rb', 'db/structure.sql'])
run_ruby('bin/rails', 'db:migrate')
require File.expand_path('config/environment')

# Each test begins with an empty queue.
class RailsTest < Minitest::Test
  def setup
    Claimq::ActiveRecord.empty(db)
    Order.delete_all
    FileUtils.rm_f('said')
    @file = File.expand_path(name)
    FileUtils.rm_f(Dir["#{@file}*"])
    @pids = []
  end

  def teardown
    @pids.dup.each { |pid| stop(pid, 'KILL') }
    assert_empty rows('SELECT * FROM claimq_check')
  end

  def db
    ActiveRecord::Base.connection
  end

  def rows(sql)
    db.uncached { db.select_rows(sql) }
  end

  def jobs(columns = 'state')
    rows("SELECT #{columns} FROM claimq_job ORDER BY job_id").map do |row|
      row.size == 1 ? row[0] : row
    end
  end

  def said
    File.exist?('said') ? File.readlines('said', chomp: true) : []
  end

  # Run what is due, here.
  def drain(*queues)
    queues = nil if queues.empty?
    ActiveJob::Base.queue_adapter.worker(queues, log: ->(_) {}).drain
  end

  # A worker in a process of its own.
  def start(*arguments, command: [WORKER], **environment)
    pid = spawn(environment.transform_keys(&:to_s), RUBY, *command, *arguments,
                %i[out err] => ["#{@file}.out", 'a'])
    @pids << pid
    pid
  end

  def stop(pid, signal = 'TERM')
    Process.kill(signal, pid)
    @pids.delete(pid)
    Process.wait2(pid)[1]
  end

  # A worker that ended by itself will not do what is waited for.
  def wait
    Support.wait do
      @pids.each do |pid|
        next unless Process.wait(pid, Process::WNOHANG)

        @pids.delete(pid)
        raise "a worker has ended: #{File.read("#{@file}.out")}"
      end
      yield
    end
  end

  def until_done(number)
    wait { jobs.count('completed') == number }
  end

  def test_the_order_and_its_job_both
    Order.transaction do
      Order.create!(number: 7)
      Jobs::Say.perform_later('hello')
      assert_equal ['ready'], jobs # not after the commit
    end
    assert_equal [1, ['ready']], [Order.count, jobs]
  end

  def test_the_order_and_its_job_neither
    Order.transaction do
      Order.create!(number: 7)
      Jobs::Say.perform_later('hello')
      raise ActiveRecord::Rollback
    end
    assert_equal [0, []], [Order.count, jobs]
  end

  def test_a_savepoint_takes_its_job_back
    Order.transaction do
      Jobs::Say.perform_later('stays')
      Order.transaction(requires_new: true) do
        Jobs::Say.perform_later('goes')
        raise ActiveRecord::Rollback
      end
    end
    drain
    assert_equal ['stays'], said
  end

  def test_what_is_enqueued
    at = Time.at(4_000_000_000, 1500, :usec)
    job = Jobs::Mail.set(wait_until: at).perform_later('hello')
    plain = Jobs::Say.perform_later('hello')
    assert_equal [['mail', -5, 4_000_000_000_002, 1], ['default', 0, nil, 1]],
                 jobs('lane, priority, available_at_ms, max_attempts')
    assert_equal [job, plain].map(&:provider_job_id), jobs('job_id')
    payload = JSON.parse(jobs('payload')[0])
    assert_equal ['Jobs::Mail', job.job_id, ['hello']],
                 payload.values_at('job_class', 'job_id', 'arguments')
    assert_equal 1, drain('default', 'mail')
  end

  def test_many_at_once
    unless ActiveJob.respond_to?(:perform_all_later)
      skip "Active Job #{ActiveJob.version} has no perform_all_later"
    end

    list = [Jobs::Say.new(1), Jobs::Mail.new(2).set(wait: 3600)]
    ActiveJob.perform_all_later(list)
    assert_equal jobs('job_id'), list.map(&:provider_job_id)
    assert list.all?(&:successfully_enqueued?)
    assert_equal %w[default mail], jobs('lane')
    assert_equal [nil, Integer], jobs('available_at_ms').map { |at| at&.class }
  end

  def test_urgent_jobs_are_first
    [5, nil, -3].each { |n| Jobs::Say.set(priority: n).perform_later(n.to_s) }
    drain
    assert_equal ['-3', '', '5'], said
  end

  def test_a_worker_runs_jobs_and_stops
    Jobs::Say.perform_later('a')
    Jobs::Mail.perform_later('b')
    pid = start('--queues', 'mail,default')
    until_done(2)
    assert_equal %w[b a], said
    assert stop(pid).success?, File.read("#{@file}.out")
    assert_includes File.read("#{@file}.out"), 'lanes mail, default'
  end

  def test_jobs_run_at_the_same_time
    names = ["#{@file}-1", "#{@file}-2"]
    Jobs::Meet.perform_later(*names)
    Jobs::Meet.perform_later(*names.reverse)
    start('--concurrency', '2')
    until_done(2)
    assert_equal %w[met met], said
  end

  def test_the_task_of_rake
    Jobs::Mail.perform_later('a')
    pid = start('claimq:work', command: ['bin/rails'], QUEUES: 'mail',
                               CONCURRENCY: '2', LEASE: '60')
    until_done(1)
    assert stop(pid).success?, File.read("#{@file}.out")
    assert_includes File.read("#{@file}.out"), 'lane mail, concurrency 2'
  end

  def test_a_batch_ends
    Jobs::Say.perform_later('now')
    Jobs::Say.set(wait: 3600).perform_later('later')
    run_ruby(WORKER, '--batch')
    assert_equal [['now'], %w[completed ready]], [said, jobs.sort]
  end

  def test_a_worker_of_another_adapter
    require 'claimq/command'
    ActiveJob::Base.queue_adapter = :inline
    _, errors = capture_io do
      assert_raises(SystemExit) { Claimq::Command.work({}) }
    end
    assert_equal "the queue_adapter is ActiveJob::QueueAdapters::InlineAdapter,\
 and not claimq's\n", errors
  ensure
    ActiveJob::Base.queue_adapter = :claimq
  end

  # One retry for each, and a job that enqueues itself has ended with that.
  def test_retry_on_retries_once
    Jobs::Retried.perform_later
    drain
    assert_equal ['fail 1', 'completed ready', 'fail 2',
                  'completed completed ready', 'fail 3'], said
    assert_equal [['completed', 1], ['completed', 1], ['failed', 1]],
                 jobs('state, attempts')
    assert_equal 1, rows('SELECT * FROM claimq_letter').size
  end

  def test_what_is_discarded
    Jobs::Discarded.perform_later
    drain
    assert_equal [['fail 1'], ['completed'], []],
                 [said, jobs, rows('SELECT * FROM claimq_letter')]
  end

  def test_a_job_that_raises_has_failed
    Jobs::Fail.perform_later
    drain
    letter, kind, reason = rows(
      'SELECT letter_id, error_class, reason FROM claimq_letter'
    )[0]
    assert_equal 'KeyError', kind
    assert_match(/\AKeyError: user_id\n  .*jobs.rb/, reason)
    db.execute("SELECT claimq_requeue(#{letter})")
    drain
    assert_equal ['fail 1', 'fail 1'], said
  end

  def test_what_is_rejected
    Jobs::Refuse.perform_later
    db.execute("INSERT INTO claimq_job(lane, payload) VALUES
                ('default', 'hello'), ('default', '[]'),
                ('default', '{\"job_class\":\"Missing\",\"arguments\":[]}')")
    drain
    drain
    reasons = rows('SELECT reason FROM claimq_letter ORDER BY letter_id')
    no_job = ActiveJob::QueueAdapters::ClaimqAdapter::NO_JOB
    assert_equal ['never', no_job, no_job], reasons.flatten
    assert_match(/Missing/, jobs('last_error')[3])
  end

  # The order that the killed worker had written is gone, and the next one is
  # there once.
  def test_a_killed_worker_and_its_job
    Jobs::Ship.perform_later(42, @file)
    first = start('--lease', '1')
    wait { File.exist?(@file) }
    stop(first, 'KILL')
    start
    until_done(1)
    assert_equal [42], Order.pluck(:number)
    assert_equal [['interrupted_reclaimed'], ['success']],
                 rows('SELECT outcome FROM claimq_attempt
                        ORDER BY attempt_index')
  end

  def test_a_killed_worker_beside_it
    unless Gem::Specification.map(&:name).include?('delayed_job_active_record')
      skip 'there is no delayed_job'
    end

    beside = { BESIDE: '1', DATABASE: File.expand_path("#{@file}.db") }
    run_ruby('-e', <<~RUBY, **beside)
      require './config/environment'
      db = ActiveRecord::Base.connection
      db.create_table(:orders) { |table| table.integer :number }
      db.create_table(:delayed_jobs) do |table|
        %i[priority attempts].each { |n| table.integer n, default: 0 }
        %i[handler last_error].each { |n| table.text n }
        %i[run_at locked_at failed_at created_at updated_at].each do |n|
          table.datetime n
        end
        %i[locked_by queue].each { |n| table.string n }
      end
      Jobs::ShipPlainly.perform_later(42, #{@file.inspect})
    RUBY
    first = start('jobs:work', command: ['bin/rails'], **beside)
    wait { File.exist?(@file) }
    stop(first, 'KILL')
    sleep(1) # the lease that the test above has
    run_ruby('bin/rails', 'jobs:workoff', **beside)
    file = Claimq.open(beside[:DATABASE])
    left, orders = file.execute('SELECT (SELECT count(*) FROM delayed_jobs),
                                        (SELECT count(*) FROM orders)').first
    file.close
    puts "note delayed_job after kill -9 and the time of a lease: #{left} job " \
         "left, #{orders} orders; claimq: 0 jobs left, 1 order"
  end

  def test_the_programs_of_the_readme
    text = File.read(ENV.fetch('CLAIMQ_README'))[/^## Rails$.*?^## /m]
    text.scan(/^```ruby\n(.*?)^```$/m) { |code,| eval(code, TOPLEVEL_BINDING) }
    Order.buy(42)
    ShipJob.perform_later(43)
    out, = capture_io { assert_equal 2, drain }
    assert_equal "mail for order 42\n", out
    assert_equal [42, 43], Order.pluck(:number)
  end

  def test_steps
    Jobs::Steps.perform_later
    drain
    assert_equal %w[one undone undone 42], said
    assert_equal [['one', '41']], rows('SELECT name, value FROM claimq_steps')
  end

  # The steps that were done are not done again, and the one at which the worker
  # was killed goes on from its last checkpoint.
  def test_a_continuation
    unless ActiveJob.const_defined?(:Continuable)
      skip "Active Job #{ActiveJob.version} has no continuations (8.1 has)"
    end

    Jobs::Continued.perform_later(@file)
    first = start('--lease', '1')
    wait { File.exist?(@file) }
    stop(first, 'KILL')
    start
    until_done(1)
    assert_equal ['first', 'second 1', 'second 2', 'second 3', 'second 3',
                  'second 4', 'third'], said
  end

  def test_the_generator
    app = "#{@file}.app"
    FileUtils.mkdir_p("#{app}/db")
    %w[bin config app Rakefile].each { |part| FileUtils.cp_r(part, app) }
    text = File.read("#{app}/config/application.rb")
    File.write("#{app}/config/application.rb",
               text.sub(/.*queue_adapter.*\n/, ''))
    env = { DATABASE: File.join(app, 'new.db') }
    Dir.chdir(app) do
      run_ruby('bin/rails', 'generate', 'claimq:install', **env)
      assert_match(/queue_adapter = :claimq$/,
                   File.read('config/application.rb'))
      run_ruby('-e', <<~RUBY, **env)
        #{RAKE}
        rake('db:migrate')
        Jobs::Say.perform_later('hello')
        ActiveJob::Base.queue_adapter.worker.drain
        rake('db:rollback')
      RUBY
    end
    assert_equal ['hello'], said
    file = SQLite3::Database.new(env[:DATABASE])
    assert_empty file.execute("SELECT name FROM sqlite_schema
                                WHERE name LIKE 'claimq%'")
    file.close
  end

  # The whole cycle of the schema, in both formats: the queue survives it, with
  # its jobs where the file stays, and empty where it is a new one.
  def schema(format, file)
    out = run_ruby('-e', <<~RUBY, DATABASE: "#{@file}.db", FORMAT: format)
      #{RAKE}
      ENV['VERBOSE'] = 'false'
      def show(what)
        db = ActiveRecord::Base.connection
        payloads = db.select_values('SELECT payload FROM claimq_job')
        jobs = payloads.map { |text| JSON.parse(text)['arguments'][0] }
        puts [what, *jobs, *db.select_rows('SELECT * FROM claimq_check')].join(' ')
      end
      rake('db:migrate')
      Jobs::Say.perform_later('kept')
      lines = -> { File.read(#{file.inspect}).scan(/^.*claimq.*$/) }
      puts lines.call
      rake('db:rollback') # takes a column away
      show('rollback')
      rake('db:migrate')
      show('migrate')
      puts lines.call
      if #{format == 'ruby'}
        rake('db:schema:load')
        show('load')
      end
      ActiveRecord::Base.connection_handler.clear_all_connections!(*ALL)
      File.delete(*Dir[ENV['DATABASE'] + '*'])
      rake('db:schema:load')
      show('new')
      Jobs::Say.perform_later('gone')
      rake('db:truncate_all')
      show('empty')
      Jobs::Say.perform_later('done')
      ActiveJob::Base.queue_adapter.worker(log: ->(_) {}).drain
    RUBY
    assert_equal ['done'], said
    out.lines(chomp: true).map(&:strip)
  ensure
    FileUtils.rm_f(file)
  end

  def test_schema_rb
    assert_equal ['execute "SELECT claimq_init()"', 'rollback kept',
                  'migrate kept', 'execute "SELECT claimq_init()"',
                  'load kept', 'new', 'empty'],
                 schema('ruby', 'db/schema.rb')
  end

  # It is made for new files only.
  def test_structure_sql
    assert_equal ['-- claimq: SELECT claimq_init();', 'rollback kept',
                  'migrate kept', '-- claimq: SELECT claimq_init();', 'new',
                  'empty'],
                 schema('sql', 'db/structure.sql')
  end
end

Support.run(RailsTest)
