use rusqlite::{Connection, Result, ToSql, Transaction, TransactionBehavior};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a database for claimq: WAL, a busy timeout of 30 s, and claimq's
/// tables, which are created when they are missing.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    crate::auto_load();
    let db = Connection::open(path)?;
    db.busy_timeout(TIMEOUT)?;
    // SQLite does not wait for the lock that a change of the journal mode
    // needs, and several processes may open a new database at once.
    let until = Instant::now() + TIMEOUT;
    while let Err(error) = call(&db, "PRAGMA journal_mode=wal", &[]) {
        let busy = error.sqlite_error_code()
            == Some(rusqlite::ErrorCode::DatabaseBusy);
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

/// Runs a SELECT of one row, and forgets what it answers.
pub(crate) fn call(
    db: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
) -> Result<()> {
    db.prepare_cached(sql)?.query_row(values, |_| Ok(()))
}
