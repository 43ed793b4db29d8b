# frozen_string_literal: true

require 'json'
require 'sqlite3'

# claimq: queues of leased, fenced work in ordinary SQLite tables.
#
#     db = Claimq.open('app.db')
#     Claimq.transaction(db) do               # the order and its job: both
#       db.execute('INSERT INTO orders VALUES (?)', [42])
#       Claimq.submit(db, 'mail', { order: 42 }, max_attempts: 3)
#     end
#
#     Claimq::Worker.new('app.db', 'mail') { |job| puts job.payload }.run
#
# load puts the extension into a connection that you have; open opens one with
# the settings that suit claimq.  Everything else is SQL: the manual is
# ext/doc/manual.md of the source archive.
module Claimq
  VERSION = '@VERSION@'
  TASK = 'task:' # a job that needs this capability has the name behind it

  module_function

  # The path of the extension, without .so, .dll or .dylib.  For
  # SQLite3::Database.new(path, extensions: [Claimq]) of sqlite3 2.4.
  def to_path
    File.expand_path('claimq/claimq', __dir__)
  end

  # Load claimq into a connection.
  def load(db)
    db.enable_load_extension(true)
    db.load_extension(to_path)
  ensure
    db.enable_load_extension(false)
  end

  # Open a database for claimq: the extension loaded, WAL, a wait for locks (in
  # seconds) that lets other threads run, and claimq's tables, which are created
  # when they are missing.
  def open(path, timeout: 30)
    db = SQLite3::Database.new(path)
    wait_for_locks(db, timeout)
    load(db)
    use_wal(db, timeout)
    db.execute('SELECT claimq_init()')
    db
  end

  # Put a job into a lane; returns its id.  Strings are stored as they are, all
  # else as JSON.  The options are those of claimq_submit, with lists and hashes
  # as JSON, nil: not given; and `task`, the name under which a worker has its
  # handler.
  def submit(db, lane, payload, task: nil, **options)
    if task
      needs = options[:capabilities]
      needs = JSON.parse(needs) if needs.is_a?(String)
      options[:capabilities] = [*needs, TASK + task.to_s]
    end
    pairs = options.compact.flat_map do |name, value|
      list = value.is_a?(Array) || value.is_a?(Hash)
      [name.to_s, list ? JSON.generate(value) : value]
    end
    payload = JSON.generate(payload) unless payload.is_a?(String)
    db.get_first_value(
      "SELECT claimq_submit(?, ?#{', ?' * pairs.size})", [lane, payload, *pairs]
    )
  end

  # busy_timeout would sleep inside SQLite, with Ruby's lock held: no other
  # thread could run meanwhile, not even the one that has SQLite's lock.
  def wait_for_locks(db, timeout)
    since = nil
    db.busy_handler do |count|
      since = now if count.zero?
      sleep(0.005)
      now - since < timeout
    end
  end

  # SQLite does not wait for the lock that a change of the journal mode needs,
  # and several processes may open a new database at once.
  def use_wal(db, timeout)
    since = now
    begin
      db.execute('PRAGMA journal_mode=wal')
    rescue SQLite3::BusyException
      raise if now - since > timeout

      sleep(0.01)
      retry
    end
  end

  # Is it an error that may be gone after a while: a lock, a full disk?
  def waiting_cures?(error)
    code(error).nil? && [
      SQLite3::BusyException, SQLite3::LockedException, SQLite3::FullException,
      SQLite3::IOException, SQLite3::ProtocolException,
      SQLite3::MemoryException, NoMemoryError
    ].any? { |kind| error.is_a?(kind) }
  end

  # A binary string would be bound as a BLOB.
  def text(string)
    string.dup.force_encoding(Encoding::UTF_8).scrub
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # BEGIN IMMEDIATE, the block, COMMIT; ROLLBACK if the block raises.  Returns
  # what the block returns.  (The gem's own commits when a block is left by exit
  # or by Ctrl-C, and returns true.)
  def transaction(db)
    gate(db, 1)
    db.execute('BEGIN IMMEDIATE')
    begin
      yield db
    rescue Exception
      raised = true
      raise
    ensure
      db.execute(raised ? 'ROLLBACK' : 'COMMIT') if db.transaction_active?
    end
  ensure
    gate(db, 0)
  end

  # Before a transaction (1) and after it (0): others of claimq's writers wait
  # for its end until they are woken, where SQLite would sleep and look again.
  # (It does not wait so itself: see wait_for_locks.)  It is only a hint, which
  # a connection without claimq does not have: no error matters.
  def gate(db, enter)
    db.execute("SELECT claimq__gate(#{enter})")
  rescue SQLite3::Exception
    # SQLite's own lock decides.
  end

  # The code of an error of claimq, such as "claim_lost", whatever has been
  # wrapped around it; nil for all other errors.
  def code(error)
    error.to_s[/\bclaimq: ([a-z_]+): /, 1]
  end
end

require_relative 'claimq/worker'
require_relative 'claimq/loops'
require_relative 'claimq/contest'
require_relative 'claimq/railtie' if defined?(Rails::Railtie)
