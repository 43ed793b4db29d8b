# What a grown worker does, with the installed gem.
#
#     ruby grown.rb NAME DATABASE
#
# Prints what happens, which package_ruby.test compares.
require 'claimq'

QUIET = ->(_) {}

# A worker that says nothing takes jobs of all partitions; a number or a list
# restricts it.
def partition(path)
  db = Claimq.open(path)
  [0, 5, 7, 9].each do |number|
    db.execute("SELECT claimq_submit('l', ?, 'partition', ?)",
               [number.to_s, number])
  end
  { 7 => 1, [5, 9] => 2, nil => 1 }.each do |which, count|
    seen = []
    worker = Claimq::Worker.new(path, 'l', partition: which,
                                           log: QUIET) do |job|
      seen << job.payload
      worker.stop if seen.size == count
    end
    worker.run
    puts "#{which.inspect}: #{seen.join(' ')}"
  end
end

# Payloads and headers come back as they were given.
def submit(path)
  db = Claimq.open(path)
  ids = [Claimq.submit(db, 'l', { 'to' => ['you', 1] },
                       headers: { trace: 'x' }, priority: 3, source_key: nil),
         Claimq.submit(db, 'l', 'text', delay_ms: 0, priority: 2),
         Claimq.submit(db, 'l', "\xff\x00".b, capabilities: ['gpu'])]
  Claimq::Worker.new(path, 'l', capabilities: ['gpu'], log: QUIET) do |job|
    ids.delete(job.id)
    given = job.payload.start_with?('{') ? job.json : job.payload.bytes.size
    puts "#{job.lane} #{given.inspect} #{job.headers} #{job.task.inspect}"
  end.drain
  puts ids.size
  puts db.get_first_value("SELECT group_concat(typeof(payload)) FROM claimq_job
                            ORDER BY job_id")
  begin
    Claimq.submit(db, 'l', 'x', max_atempts: 3)
  rescue SQLite3::Exception => e
    puts Claimq.code(e)
  end
end

# Of several lanes the first goes first, each time anew.
def lanes(path)
  db = Claimq.open(path)
  %w[low high].each { |lane| Claimq.submit(db, lane, lane) }
  worker = Claimq::Worker.new(path, %w[high low], log: QUIET) do |job|
    puts job.payload
    Claimq.submit(db, 'high', 'second') if job.payload == 'high'
    worker.stop if job.payload == 'last'
    Thread.new { Claimq.submit(db, 'low', 'last') } if job.payload == 'low'
  end
  puts "begun: #{worker.run}"
end

# A worker gets the tasks that it knows; others wait for a newer one.
def tasks(path)
  db = Claimq.open(path)
  Claimq.submit(db, 'l', { n: 1 }, task: 'mail.welcome', capabilities: ['gpu'])
  Claimq.submit(db, 'l', { n: 2 }, task: 'mail.new')
  Claimq.submit(db, 'l', 'plain', max_attempts: 1)
  said = []
  worker = Claimq::Worker.new(path, 'l', capabilities: ['gpu'],
                                         log: ->(line) { said << line })
  worker.task('mail.welcome') { |job| puts "#{job.task} #{job.json['n']}" }
  puts "begun: #{worker.drain}"
  puts db.execute("SELECT payload, state, last_error FROM claimq_job
                    WHERE job_id>1").map { |row| row.to_a.compact.join(' ') }
  puts said.grep(/job 3: no handler/).size
  puts db.get_first_value("SELECT reason FROM claimq_why('lane', 'l')")
  Claimq::Worker.new(path, 'l', log: QUIET) { |job| puts job.task }
                .task('mail.new') { |job| puts "new #{job.json['n']}" }.drain
end

# Given back: no attempt is used.
def release(path)
  db = Claimq.open(path)
  2.times { |n| Claimq.submit(db, 'l', n) }
  again = 0
  Claimq::Worker.new(path, 'l', log: QUIET) do |job|
    raise Claimq::Release.new(delay_ms: 1e9) if job.json == 1
    raise Claimq::Release if (again += 1) < 3
  end.drain
  puts again
  puts db.execute('SELECT state, attempt_index, attempts, last_error
                     FROM claimq_job').map { |row| row.to_a.join(' ').strip }
end

# A name that was mistyped is an error, and no new file.
def create(path)
  worker = ->(**options) { Claimq::Worker.new(path, 'l', **options) { nil } }
  begin
    worker[].run
  rescue RuntimeError => e
    puts e.message.sub(path, 'X'), File.exist?(path)
  end
  puts worker[create: true, log: QUIET].drain, File.exist?(path)
end

# The worker's connections; a connection of one's own is FULL (2).
def synchronous(path)
  db = Claimq.open(path)
  puts db.get_first_value('PRAGMA synchronous')
  ['normal', 'full'].each do |how|
    Claimq.submit(db, 'l', 'x')
    Claimq::Worker.new(path, 'l', synchronous: how, log: QUIET) do |job|
      own = job.instance_variable_get(:@db)
      puts own.get_first_value('PRAGMA synchronous')
    end.drain
  end
end

# What it says: that it starts and stops, and each failure with its trace.
def log(path)
  db = Claimq.open(path)
  Claimq.submit(db, 'l', 'x', max_attempts: 1)
  said = []
  Claimq::Worker.new(path, %w[k l], owner: 'me', concurrency: 2,
                                    log: ->(line) { said << line }) do |job|
    Integer(job.payload)
  end.drain
  puts said.first, said.last
  puts said[1].lines.first[/job 1 failed.*/].sub(/\S+grown.rb:\d+:.*?: /, '')
  puts said[1].lines.size > 3
  puts db.execute("SELECT error_class, reason LIKE 'ArgumentError: invalid%'
                     FROM claimq_letter").map { |row| row.to_a.join(' ') }
end

# As many handlers at once as it says, and what is not begun is given back when
# it stops, while the others are at work.
def concurrency(path)
  db = Claimq.open(path)
  9.times { |n| Claimq.submit(db, 'l', n) }
  at_work = Queue.new
  worker = Claimq::Worker.new(path, 'l', concurrency: 3, batch: 2,
                                         log: QUIET) do |job|
    at_work << job.json
    limit('three at work') { at_work.size >= 3 }
    worker.stop
    limit('the others given back') do
      db.get_first_value("SELECT count(*) FROM claimq_job
                           WHERE state='ready'") == 6
    end
  end
  puts "begun: #{worker.run}"
  puts db.execute('SELECT state, attempt_index, count(*) FROM claimq_job
                    GROUP BY 1, 2').map { |row| row.to_a.join(' ') }
  worker = Claimq::Worker.new(path, 'l', concurrency: 3, log: QUIET) do |job|
    Claimq.submit(db, 'm', 'child') if job.json == 8
  end
  puts "drained: #{worker.drain}"
end

def limit(what)
  till = Claimq.now + 300
  until yield
    raise "never: #{what}" if Claimq.now > till

    sleep(0.01)
  end
end

# What a thread has taken stays taken, also when the thread has ended.
def taken(_path)
  held = Claimq::Held.new({ 'claim_id' => 1, 'lease_token' => 1 }, -> { false })
  puts held.free?, Thread.new { held.take? }.value, held.free?, held.take?
end

# What waiting does not cure ends all threads, and is raised by run.
def ends(path)
  db = Claimq.open(path)
  db.execute("SELECT claimq_init('clock', 'explicit')")
  begin
    Claimq::Worker.new(path, 'l', concurrency: 3, log: QUIET) { nil }.run
  rescue SQLite3::Exception => e
    puts Claimq.code(e)
  end
  puts Thread.list.size
end

# A cancelled job is lost at once, though its lease is long; the worker goes on.
def cancel(path)
  db = Claimq.open(path)
  id = Claimq.submit(db, 'l', 'long')
  Claimq.submit(db, 'l', 'next')
  Claimq::Worker.new(path, 'l', lease_ms: 600_000, log: QUIET) do |job|
    next puts(job.payload) unless job.payload == 'long'

    puts db.get_first_value("SELECT claimq_cancel(?, 'force', 1)", [id])
    limit('lost') { job.lost? }
    puts 'lost'
  end.drain
  puts db.execute('SELECT state FROM claimq_job').join(' ')
end

# A batch that fails half-way goes on behind what is done; a partition waits for
# no other.
def outbox(path)
  db = Claimq.open(path)
  db.execute("SELECT claimq_queue('q', 2, 'backoff_ms', 1)")
  %w[a b c d].each do |word|
    db.execute("SELECT claimq_publish('q', ?, 'headers', ?)",
               [JSON.generate(word), '{"n":1}'])
  end
  db.execute("SELECT claimq_publish('q', 'other', 'partition', 1)")
  seen = []
  work = Claimq::Outbox.new(path, 'q', max: 3, log: QUIET) do |batch|
    if batch.partition == 1
      seen << "1: #{batch.messages[0].payload}"
      raise Claimq::Reject, 'poison'
    end
    words = batch.map(&:json)
    seen << "0: #{words.join(' ')} #{batch.messages[0].headers['n']}"
    if words[0] == 'a'
      batch.done(batch.messages[0])
      batch.done(batch.messages[2])   # not b: it comes again, and c with it
      raise 'half-way'
    end
  end
  limit('all') { work.drain && cursor(db) == 4 }
  puts seen.sort
  puts db.execute('SELECT scope, reason FROM claimq_letter').join(' ')
end

def cursor(db)
  db.get_first_value("SELECT processed_seq FROM claimq_partition
                       WHERE queue='q' AND partition=0")
end

# The work of a conversation comes in order, also after a failure.
def session(path)
  db = Claimq.open(path)
  [%w[s1 hi], %w[s2 hey], %w[s1 you]].each do |name, text|
    db.execute("SELECT claimq_enqueue(?, ?)", [name, text])
  end
  failed = false
  work = Claimq::Session.new(path, concurrency: 2, log: QUIET) do |turn|
    if turn.session == 's1' && !failed
      failed = true
      raise Claimq::Retry.new('not yet', delay_ms: 1)
    end
    db.execute('INSERT INTO seen VALUES (?)',
               ["#{turn.session} #{turn.map(&:payload).join(' ')}"])
    turn.complete(db)
  end
  db.execute('CREATE TABLE seen(text)')
  limit('all') { work.drain && db.execute('SELECT 1 FROM claimq_batch').empty? }
  puts db.execute('SELECT text FROM seen ORDER BY text LIKE ?, rowid', ['s2%'])
end

# One holder at a time, which is renewed, and learns that it holds no more.
def contest(path)
  db = Claimq.open(path)
  Claimq::Contest.new(path, 'short', lease_ms: 3000).acquire do
    first = expires(db)
    limit('renewed') { expires(db) > first }
  end
  two = Array.new(2) { Claimq::Contest.new(path, 'leader') }
  tokens = []
  two[0].acquire do |guard|
    tokens << guard.fencing_token
    puts two[1].acquire(wait: false) { 'both' }.inspect
    db.execute('SELECT claimq_revoke(?)', [guard.claim[0]])
    limit('lost') { guard.lost? }
    puts(two[1].acquire { |other| (tokens << other.fencing_token) && 'mine' })
  end
  waiter = two[0].acquire do
    thread = Thread.new { two[1].acquire { 'waited' } }
    sleep(0.2)
    puts thread.alive?
    thread
  end
  puts waiter.value, tokens[1] > tokens[0]
  puts db.get_first_value('SELECT count(*) FROM claimq_leases')
end

def expires(db)
  db.get_first_value("SELECT expires_at_ms FROM claimq_leases")
end

send(ARGV[0], ARGV[1])
