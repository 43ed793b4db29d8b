# frozen_string_literal: true

# Active Job's own tests of adapters, run against claimq's.
#
#     ruby rails_own.rb cases|integration DIRECTORY
#
# DIRECTORY has the source of Rails.  Its cases are for an
# adapter that runs each job when it is enqueued, whenever it is to run, and
# raises what the job raises: so does claimq's here, on the connection of the
# test.  The others have workers: here a wait for these is a Worker that runs
# what is due.  What is true of other adapters only is left out, with the reason.
require 'active_support'
require 'fileutils'
require_relative 'support'

KIND, SOURCE = ARGV
SECONDS = 'it counts seconds, and fails on a slow machine'
ALONE = 'it has an Active Record of its own'
LEFT_OUT = {
  '#perform_later yields the enqueued Job instance even if it\'s delayed by ' \
  '`after_all_transactions_commit`' => ALONE,
  '#perform_later wait for transactions to complete before enqueuing the ' \
  'job' => ALONE,
  '#perform_later assumes successful enqueue, but update status later' => ALONE,
  '#perform_later returns the Job instance even if it\'s delayed by ' \
  '`after_all_transactions_commit`' => ALONE,
  'set test adapter' => 'it has a list of the adapters of Rails',
  'should run job enqueued in the future at the specified time' => SECONDS,
  'should run job bulk enqueued in the future at the specified time' => SECONDS
}.transform_keys { |name| "test_#{name.tr(' ', '_')}" }
OTHERS = /async_adapter|delayed_job_adapter/.freeze # tests of these

# Runs each job when it is enqueued.
module AtOnce
  CLAIM = "SELECT * FROM claimq_lane(?, 'test', 3600000)"

  def enqueue_at(job, timestamp)
    super
    db = record.connection.raw_connection
    db.execute("SELECT claimq_change(?, 'delay_ms', 0)", [job.provider_job_id])
    row = db.execute(CLAIM, [job.queue_name]).first
    raise "#{job.class} is not there" unless row

    run_at_once(Claimq::Job.new(row, -> { false }), db)
  end

  private

  def run_at_once(held, db)
    held.begin(db, 3_600_000)
    raised = nil
    calls = held.handle(lambda do |one|
      run(one)
    rescue Exception => e
      raise(raised = e)
    end) { |_| }
    held.settle(db, calls) { |line| raise line }
    raise raised if raised
  end
end

# What there is for each adapter, where the tests look for it.
FILES = {
  'adapters/claimq.rb' => 'ActiveJob::Base.queue_adapter = :claimq',
  'support/integration/adapters/claimq.rb' => <<~RUBY,
    module ClaimqJobsManager
      def clear_jobs
        Claimq::ActiveRecord.empty(ActiveRecord::Base.connection)
      end
    end
  RUBY
  'support/integration/helper.rb' => <<~RUBY # instead of a new application
    require File.expand_path('config/environment')
    ActiveRecord::Tasks::DatabaseTasks.migrate
    Dummy = Shop
    require 'rails/test_help'
    require_relative 'test_case_helpers'
    ActiveSupport::TestCase.include(TestCaseHelpers)
    TestCaseHelpers.module_eval do
      def wait_for_jobs_to_finish_for(_seconds = 60)
        adapter = ActiveJob::Base.queue_adapter
        adapter.worker('integration_tests', log: ->(_) {}).drain
      end
    end
  RUBY
}.freeze

def cases
  require 'claimq/active_job'
  ActiveRecord::Base.establish_connection(adapter: 'sqlite3',
                                          database: DATABASE)
  ActiveRecord::Base.connection.execute('SELECT claimq_init()')
  ActiveJob::QueueAdapters::ClaimqAdapter.prepend(AtOnce)
  # A test asks whether it is this one, whose library is not there.
  ActiveJob::QueueAdapters.const_set(:SneakersAdapter, Class.new)
  Dir["#{TESTS}/cases/**/*_test.rb"].sort.grep_v(OTHERS)
end

# What is tested of adapters that have ids is tested of claimq's.
def integration
  ENV['AJ_INTEGRATION_TESTS'] = '1'
  ENV['DATABASE'] = DATABASE
  template = File.read("#{TESTS}/support/integration/dummy_app_template.rb")
  File.write('app/jobs/test_job.rb',
             template[/^class TestJob.*?^end/m].gsub('\\#', '#'))
  file = "#{TESTS}/integration/queuing_test.rb"
  text = File.read(file)
  File.write(file, text.gsub(/adapter_is\?\(:async, :delayed_job.*\)/, 'true'))
  [file]
end

# Runs them, and counts.
class Count < Support::Reporter
  attr_reader :passed, :left_out

  def initialize
    super
    @passed = @left_out = @failed = 0
  end

  def record(result)
    if result.passed? then @passed += 1
    elsif !result.skipped? then @failed += 1
    end
    super
  end

  def leave_out(name, why)
    @left_out += 1
    puts "left out #{name}: #{why}"
  end

  def report
    puts "note Active Job #{ActiveJob.version}'s own tests of adapters " \
         "(#{KIND}): #{@passed + @failed} ran, #{@passed} passed, " \
         "#{@left_out} left out"
    super
  end
end

TESTS = File.expand_path('own/activejob/test')
DATABASE = File.expand_path('own.db')
FileUtils.rm_rf(%w[own own.db tmp])
FileUtils.mkdir_p(%w[own tmp])
FileUtils.cp_r(["#{SOURCE}/activejob", "#{SOURCE}/tools"], 'own')
FILES.each { |name, text| File.write("#{TESTS}/#{name}", text) }
$LOAD_PATH.unshift(TESTS)
ENV['AJ_ADAPTER'] = 'claimq'
Minitest.class_variable_set(:@@installed_at_exit, true) # they run below
(KIND == 'cases' ? cases : integration).each do |file|
  require file
end
Dir.chdir('own/activejob') # where some look for files
count = Count.new
Minitest::Runnable.runnables.each do |kind|
  kind.runnable_methods.each do |name|
    if (why = LEFT_OUT[name]) then count.leave_out(name, why)
    else count.record(Minitest.run_one_method(kind, name))
    end
  end
end
count.report
