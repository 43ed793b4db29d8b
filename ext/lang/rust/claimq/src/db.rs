use crate::Code;
use rusqlite::ErrorCode::{
    DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed,
    OutOfMemory, SystemIoFailure,
};
use rusqlite::{
    Connection, Error, Result, ToSql, Transaction, TransactionBehavior,
};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a database for claimq: WAL, a busy timeout of 30 s, and claimq's
/// tables, which are created when they are missing.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    open_within(path.as_ref(), TIMEOUT)
}

pub(crate) fn open_within(
    path: &Path,
    timeout: Duration,
) -> Result<Connection> {
    crate::auto_load();
    let db = Connection::open(path)?;
    db.busy_timeout(timeout)?;
    // SQLite does not wait for the lock that a change of the journal mode
    // needs, and several processes may open a new database at once.
    let until = Instant::now() + timeout;
    while let Err(error) = call(&db, "PRAGMA journal_mode=wal", &[]) {
        let busy = error.sqlite_error_code() == Some(DatabaseBusy);
        if !busy || Instant::now() > until {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(10));
    }
    call(&db, "SELECT claimq_init()", &[])?;
    Ok(db)
}

/// BEGIN IMMEDIATE: a transaction that holds the write lock from the beginning.
pub fn transaction(db: &mut Connection) -> Result<Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Before a transaction of a worker (enter) it waits for its turn; after it the
/// next one is woken.  It is only a hint: no error matters.
pub(crate) fn gate(db: &Connection, enter: bool) {
    let _ = call(db, "SELECT claimq__gate(?)", &[&enter]);
}

/// Opens a connection of a worker, PRAGMA synchronous NORMAL unless it is full.
pub(crate) fn open_worker(
    path: &Path,
    timeout: Duration,
    full: bool,
) -> Result<Connection> {
    let db = open_within(path, timeout)?;
    let how = if full { "FULL" } else { "NORMAL" };
    db.pragma_update(None, "synchronous", how)?;
    Ok(db)
}

/// Runs a SELECT of one row, and forgets what it answers.
pub(crate) fn call(
    db: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<()> {
    db.prepare_cached(sql)?.query_row(values, |_| Ok(()))
}

/// Is it an error that may be gone after a while: a lock, a full disk?
pub(crate) fn waiting_cures(error: &Error) -> bool {
    Code::of(error).is_none()
        && matches!(
            error.sqlite_error_code(),
            Some(
                DatabaseBusy
                    | DatabaseLocked
                    | DiskFull
                    | SystemIoFailure
                    | OutOfMemory
                    | FileLockingProtocolFailed
            )
        )
}
