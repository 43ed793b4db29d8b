# worker_ruby.rb: the Worker of claimq and the worker of delayed_job.
#
#     GEM_PATH=... ruby worker_ruby.rb QUEUE DIR JOBS CONCURRENCY MS
#
# QUEUE is claimq or delayed_job.  The rest is that of worker_python.py, where
# it is explained.  A worker of delayed_job does one job at a time: there are
# CONCURRENCY processes of it.  So each handler adds a line to the file
# DIR/seen: its process, the times, the payload.
require 'json'

SEEN = { log: nil }

def clock(what)
  Process.clock_gettime(what)
end

def handle(payload, file, seconds)
  SEEN[:log] ||= File.open(file, 'a').tap { |log| log.sync = true }
  start = [Process::CLOCK_MONOTONIC, Process::CLOCK_PROCESS_CPUTIME_ID]
          .map { |what| clock(what) }
  sleep(seconds) if seconds.positive?
  SEEN[:log].write([Process.pid, *start, clock(Process::CLOCK_MONOTONIC),
                    clock(Process::CLOCK_PROCESS_CPUTIME_ID), payload]
                   .join(' ') << "\n")
end

def claimq(path, payloads, concurrency, *how)
  require 'claimq'
  db = Claimq.open(path)
  Claimq.transaction(db) do
    payloads.each { |each| Claimq.submit(db, 'q', each) }
  end
  db.close
  Claimq::Worker.new(path, 'q', concurrency: concurrency,
                                log: ->(_) {}) do |job|
    handle(job.payload, *how)
    nil
  end.drain
  Gem.loaded_specs['claimq'].version
end

# What a job of delayed_job is: it is stored as YAML.
Job = Struct.new(:payload, :how) do
  def perform
    handle(payload, *how)
  end
end

# The table of its generator.
def create_jobs
  ActiveRecord::Schema.verbose = false
  ActiveRecord::Schema.define do
    create_table :delayed_jobs do |table|
      %i[priority attempts].each do |name|
        table.integer name, default: 0, null: false
      end
      table.text :handler, null: false
      table.text :last_error
      %i[run_at locked_at failed_at].each { |name| table.datetime name }
      %i[locked_by queue].each { |name| table.string name }
      table.timestamps null: true
    end
    add_index :delayed_jobs, %i[priority run_at], name: 'delayed_jobs_priority'
  end
end

def connect(path)
  ActiveRecord::Base.establish_connection(adapter: 'sqlite3', database: path,
                                          timeout: 30_000)
  %w[journal_mode=WAL synchronous=NORMAL].each do |pragma|
    ActiveRecord::Base.connection.execute("PRAGMA #{pragma}")
  end
end

def delayed_job(path, payloads, concurrency, *how)
  require 'active_record'
  require 'delayed_job_active_record'
  connect(path)
  create_jobs
  ActiveRecord::Base.transaction do
    payloads.each { |each| Delayed::Job.enqueue(Job.new(each, how)) }
  end
  ActiveRecord::Base.connection.disconnect!
  concurrency.times do |n|
    fork do
      connect(path)
      worker = Delayed::Worker.new(exit_on_complete: true, quiet: true)
      worker.name = "worker #{n}"
      worker.start
      exit!(0)
    end
  end
  Process.waitall
  Gem.loaded_specs['delayed_job'].version
end

name, where, jobs, concurrency, ms = ARGV
payloads = (0...Integer(jobs)).map { |n| format('job %046d', n) }
version = send(name, File.join(where, 'queue.db'), payloads,
               Integer(concurrency), File.join(where, 'seen'),
               Float(ms) / 1000)
lines = File.readlines(File.join(where, 'seen'), chomp: true)
            .map { |line| line.split(' ', 6) }
raise "seen: #{lines.size}" unless lines.map(&:last).sort == payloads

numbers = lines.map { |line| line[0..4].map(&:to_f) }
cpu = numbers.group_by(&:first).sum do |_, all|
  all.map { |line| line[4] }.max - all.map { |line| line[2] }.min
end
puts JSON.generate(version: version.to_s, cpu: cpu,
                   seconds: numbers.map { |line| line[3] }.max -
                            numbers.map { |line| line[1] }.min)
