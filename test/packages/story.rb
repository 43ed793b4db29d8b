# The story of tcl/story.tcl, told with the installed gem.
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

def handle(db, job)
  word, name = job.payload.split
  case word
  when 'count' then db.execute('INSERT INTO done VALUES (?)', [job.id])
  when 'fail' then raise 'no luck' if job.attempt.zero?
  when 'later'
    raise Claimq::Retry.new('later', delay_ms: 1) if job.attempt.zero?
  when 'reject' then raise Claimq::Reject, 'poison'
  when 'hold'
    write("#{name}.begun")
    sleep(0.01) until File.exist?("#{name}.go")
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
  db = Claimq.open(path)
  worker = Claimq::Worker.new(path, lane, lease_ms: lease_ms.to_i,
                                          batch: batch.to_i) do |job|
    handle(db, job)
  end
  puts "begun #{worker.run}"
end
