# The story of tcl/test/story.tcl, with the installed gem.
#
#     ruby story.rb calls DATABASE
#     ruby story.rb worker DATABASE LANE LEASE_MS BATCH
require 'claimq'

def calls(path)
  db = Claimq.open(path)
  puts "version #{db.get_first_value('SELECT claimq_version()')}"
  puts "journal #{db.get_first_value('PRAGMA journal_mode')}"

  # A stale worker is refused, and recognised.
  claim = "SELECT claim_id, lease_token FROM claimq_lane('stale', ?, 1000)
            WHERE now_ms=?"
  db.execute("SELECT claimq_submit('stale', 'x', 'now_ms', 1000)")
  mine = db.execute(claim, ['a', 1000]).first
  db.execute(claim, ['b', 2000])
  begin
    db.execute('SELECT claimq_complete(?, ?)', mine)
  rescue SQLite3::Exception => e
    puts "stale #{Claimq.code(e)}"
  end
  begin
    db.execute('SELECT nonsense()')
  rescue SQLite3::Exception => e
    puts "other #{Claimq.code(e) || 'none'}"
  end

  # An order and its job, in one transaction.
  db.execute('CREATE TABLE orders(id)')
  [[1, 'x'], [2, 'y']].each do |id, payload|
    Claimq.transaction(db) do
      db.execute("SELECT claimq_submit('orders', ?)", [payload])
      db.execute('INSERT INTO orders VALUES (?)', [id])
      raise KeyError, 'something else goes wrong' if id == 1
    end
  rescue KeyError
    nil
  end
end

def write(name)
  File.write("#{name}.tmp", '')
  File.rename("#{name}.tmp", name)
end

class Odd < StandardError
  def delay_ms
    'soon'
  end

  def message
    raise 'no text'
  end
end

def odd(attempt)
  case attempt
  when 0 then raise Claimq::Retry.new('negative', delay_ms: -1)
  when 1 then raise Claimq::Retry.new('half', delay_ms: 0.5)
  when 2 then raise Odd
  end
end

def connection
  $db ||= Claimq.open(ARGV[1])
end

def note(name, word)
  File.write("#{name}.log", "#{word}\n", mode: 'a')
end

def steps(job, name)
  first = job.step('one') { note(name, 'one') && { n: 1 } }
  raise Claimq::Retry.new('again', delay_ms: 1) if job.attempt.zero?

  job.sleep(1)
  child = job.step('child') do
    note(name, 'child')
    connection.get_first_value("SELECT claimq_submit(?, 'count')", [ARGV[2]])
  end
  job.wait_for([child])
  job.step('two') { note(name, 'two') && first['n'] + 1 }
end

$functions = 0
MOST = ENV.fetch('STORY_FUNCTIONS', Float::INFINITY).to_f

def agent(job, name, number)
  number.times.sum do |i|
    job.step("s#{i}") do
      $functions += 1
      sleep(1) while $functions > MOST # until it is killed
      note(name, "s#{i}") && i
    end
  end
end

def fan(job, lane, number)
  children = job.step('children') do
    (1..number).map { |i| Claimq.submit(connection, lane, "part #{i}") }
  end
  job.wait_for(children)
  connection.get_first_value(
    'SELECT sum(result) FROM claimq_job WHERE lane=?', [lane]
  )
end

def ask(job, id)
  job.wait_for([id])
  connection.get_first_value('SELECT result FROM claimq_job WHERE job_id=?',
                             [id])
end

def handle(job)
  word, name, number = job.payload.split
  case word
  when 'odd' then odd(job.attempt)
  when 'never' then raise Claimq::Retry.new('never', delay_ms: 2**70)
  when 'what' then return { what: Float::NAN }
  when 'count'
    connection.execute('INSERT INTO done VALUES (?)', [job.id])
  when 'fail' then raise 'no luck' if job.attempt.zero?
  when 'later'
    raise Claimq::Retry.new('later', delay_ms: 1) if job.attempt.zero?
  when 'reject' then raise Claimq::Reject, 'poison'
  when 'hold'
    write("#{name}.begun")
    sleep(0.01) until File.exist?("#{name}.go")
  when 'steps' then steps(job, name)
  when 'agent' then return agent(job, name, number.to_i)
  when 'fan' then return fan(job, name, number.to_i)
  when 'part' then return name.to_i
  when 'ask' then return ask(job, name.to_i)
  when 'lost'
    write("#{name}.begun")
    sleep(0.01) until job.lost?
    write("#{name}.lost")
  end
  "did #{job.payload}"
end

what, path, lane, lease_ms, batch = ARGV
if what == 'calls'
  calls(path)
else
  timeout = ENV.fetch('STORY_TIMEOUT_MS', 30_000).to_i / 1000.0
  concurrency = ENV.fetch('STORY_CONCURRENCY', 1).to_i
  worker = Claimq::Worker.new(path, lane, lease_ms: lease_ms.to_i,
                                          batch: batch.to_i,
                                          concurrency: concurrency,
                                          timeout: timeout) do |job|
    handle(job)
  end
  puts "begun #{worker.run}"
end
