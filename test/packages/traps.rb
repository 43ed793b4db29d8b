# The traps of ext/lang/ruby/README.md, and the way around each of them.
#
#     ruby traps.rb NAME DATABASE
#
# Prints what happens, a line for the natural way and a line for the recipe.
require 'claimq'

CLAIM = "SELECT claim_id, lease_token FROM claimq_lane('l', 'w', 30000, 3)"
DONE = 'SELECT claimq_complete(?, ?)'

def fresh(path, jobs)
  db = Claimq.open(path)
  db.execute('CREATE TABLE orders(id)')
  jobs.times { db.execute("SELECT claimq_submit('l', 'x')") }
  db
end

# Completing inside the loop over the rows of the claim.
def rows(path)
  db = fresh(path, 6)
  other = Claimq.open(path)
  begin
    db.execute(CLAIM) do |row|
      other.execute('INSERT INTO orders VALUES (1)')
      db.execute(DONE, row.to_a)
    end
    puts 'block: fine'
  rescue SQLite3::BusyException => e
    puts "block: #{e.message}"
  end
  all = db.execute(CLAIM)
  all.each do |row|
    other.execute('INSERT INTO orders VALUES (1)')
    db.execute(DONE, row.to_a)
  end
  puts "array: #{all.size}"
end

# A thread that waits for a lock, and the thread that has it.
def lock(path)
  db = fresh(path, 0)
  other = Claimq.open(path, timeout: 60)
  thread = nil
  Claimq.transaction(db) do
    thread = Thread.new { other.execute("SELECT claimq_submit('l', 'x')") }
    sleep(0.2)                  # the thread waits; this one still runs
    db.execute('INSERT INTO orders VALUES (1)')
  end
  thread.join
  puts "jobs: #{db.get_first_value('SELECT count(*) FROM claimq_job')}"
end

# A transaction that is left by exit.
def leave(path)
  db = fresh(path, 0)
  count = 'SELECT count(*) FROM claimq_job'
  work = lambda do |*|
    db.execute("SELECT claimq_submit('l', 'x')")
    exit
  end
  begin
    db.transaction(:immediate, &work)
  rescue SystemExit
    puts "gem: #{db.get_first_value(count)}"
  end
  begin
    Claimq.transaction(db, &work)
  rescue SystemExit
    puts "claimq: #{db.get_first_value(count)}"
  end
  puts "value: #{Claimq.transaction(db) { 7 }}"
end

# A binary string is bound as a BLOB.
def binary(path)
  db = fresh(path, 1)
  owner = (+'w').force_encoding(Encoding::BINARY)
  begin
    db.execute("SELECT * FROM claimq_lane('l', ?)", [owner])
  rescue SQLite3::SQLException => e
    puts e.message
  end
  owner.force_encoding(Encoding::UTF_8)
  puts "UTF-8: #{db.execute("SELECT * FROM claimq_lane('l', ?)", [owner]).size}"
end

# A query that is closed before a row was read has not been run.
def close(path)
  db = fresh(path, 0)
  db.query("SELECT claimq_submit('l', 'x')").close
  puts "query: #{db.get_first_value('SELECT count(*) FROM claimq_job')}"
  db.execute("SELECT claimq_submit('l', 'x')")
  puts "execute: #{db.get_first_value('SELECT count(*) FROM claimq_job')}"
end

# The block returns, or raises, what SQLite has no value for.
def values(path)
  db = fresh(path, 0)
  %w[object large fail last].each do |payload|
    db.execute("SELECT claimq_submit('l', ?)", [payload])
  end
  worker = Claimq::Worker.new(path, 'l', log: ->(_) {}) do |job|
    case job.payload
    when 'object' then { n: 1 }
    when 'large' then 2**70
    when 'fail' then raise 'binary'.b
    when 'last' then worker.stop && nil
    end
  end
  puts "begun: #{worker.run}"
  db.execute('SELECT payload, state, coalesce(result, last_error)
                FROM claimq_job') { |row| puts row.to_a.join(' ').lines[0] }
end

send(ARGV[0], ARGV[1])
