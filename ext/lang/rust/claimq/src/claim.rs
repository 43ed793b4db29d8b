use crate::db::{call, waiting_cures};
use crate::{Code, Worker};
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row, ToSql};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

/// A handler is somebody else's program.  Nothing that it does may end the
/// worker, and all of it counts: what came of a job is a list of calls (a verb
/// and its values), the best first, and if SQLite or claimq refuses the values
/// of one, the next is made.  The last has no value of the handler's.
pub(crate) type Call = (&'static str, Vec<Value>);

/// What is held, of any discipline.
#[derive(Debug)]
pub struct Claim {
    pub claim_id: String,
    pub lease_token: String,
    pub fencing_token: i64,
    /// All columns of its (first) row.
    pub row: HashMap<String, Value>,
    taken: AtomicBool,
    gone: AtomicBool,
    completed: AtomicBool, // by the handler, in a transaction of its own
    stopping: Arc<AtomicBool>,
}

/// All columns of a row.
pub(crate) fn columns(row: &Row) -> Result<HashMap<String, Value>> {
    let names = row.as_ref().column_names().into_iter();
    names
        .map(|name| Ok((name.to_string(), row.get(name)?)))
        .collect()
}

impl Claim {
    pub(crate) fn new(row: &Row, worker: &Worker) -> Result<Claim> {
        Ok(Claim {
            claim_id: row.get("claim_id")?,
            lease_token: row.get("lease_token")?,
            fencing_token: row.get("fencing_token")?,
            row: columns(row)?,
            taken: AtomicBool::default(),
            gone: AtomicBool::default(),
            completed: AtomicBool::default(),
            stopping: worker.stop.clone(),
        })
    }

    /// True when somebody else has taken the job over, or it was cancelled: the
    /// handler should stop, nothing that it still does counts.
    pub fn lost(&self) -> bool {
        self.gone() && !self.completed.load(SeqCst)
    }

    /// True when the claim does not hold any more, for whatever reason.
    pub(crate) fn gone(&self) -> bool {
        self.gone.load(SeqCst)
    }

    /// True when the worker is to end, and waits for this handler.
    pub fn stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// Completes the job on a connection of the handler's own, inside a
    /// transaction with the handler's writes: both happen, or neither.
    pub fn complete(&self, db: &Connection) -> Result<()> {
        self.completed.store(true, SeqCst);
        let claim: [&dyn ToSql; 2] = [&self.claim_id, &self.lease_token];
        call(db, "SELECT claimq_complete(?, ?)", &claim)
    }

    /// True for the first who asks: the loop of the worker, which begins the
    /// job, or the thread that gives it back when the worker is stopping.
    pub(crate) fn take(&self) -> bool {
        !self.gone() && !self.taken.swap(true, SeqCst)
    }

    pub(crate) fn taken(&self) -> bool {
        self.taken.load(SeqCst)
    }

    /// Makes the first of the calls whose values are accepted.
    pub(crate) fn settle(
        &self,
        db: &Connection,
        calls: &[Call],
        log: fn(&str),
    ) -> Result<()> {
        for (i, (verb, values)) in calls.iter().enumerate() {
            let values: Vec<&dyn ToSql> =
                values.iter().map(|value| value as &dyn ToSql).collect();
            match self.verb(db, verb, &values) {
                Err(error) if i + 1 < calls.len() && !waiting_cures(&error) => {
                    let id = &self.claim_id;
                    log(&format!("{id}: {verb} was refused: {error}"));
                }
                result => return result,
            }
        }
        Ok(())
    }

    /// Calls a verb, such as `renew(?, ?, ?)`.  That the claim is lost is
    /// remembered, and is no error.
    pub(crate) fn verb(
        &self,
        db: &Connection,
        verb: &str,
        values: &[&dyn ToSql],
    ) -> Result<()> {
        let mut all: Vec<&dyn ToSql> = vec![&self.claim_id, &self.lease_token];
        all.extend(values);
        match call(db, &format!("SELECT claimq_{verb}"), &all) {
            Err(error) if Code::of(&error) == Some(Code::ClaimLost) => {
                self.gone.store(true, SeqCst);
                Ok(())
            }
            result => result,
        }
    }
}
