use crate::db::call;
use crate::Code;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row, ToSql};
use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;

/// What a handler returns when it has not done the job.  Every error becomes a
/// `Retry` by itself, so that `?` can be used.
#[derive(Debug)]
pub enum Failure {
    /// Try again, after `delay` if it is given, else after the job's backoff.
    Retry {
        reason: String,
        delay: Option<Duration>,
    },
    /// Never try again: the job becomes a dead letter.
    Reject(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Retry {
            reason: error.to_string(),
            delay: None,
        }
    }
}

/// What a handler returns: `Ok` completes the job, with the value as its result.
pub type Outcome<R> = std::result::Result<R, Failure>;

/// What a handler gets.
#[derive(Debug)]
pub struct Job {
    pub id: i64,
    pub payload: Value,
    /// 0 is the first.
    pub attempt: i64,
    pub claim_id: String,
    pub lease_token: String,
    /// All columns of the claim.
    pub row: HashMap<String, Value>,
    taken: AtomicBool,
    lost: AtomicBool,
    stopping: Arc<AtomicBool>,
}

impl Job {
    pub(crate) fn new(
        row: &Row,
        stopping: &Arc<AtomicBool>,
    ) -> Result<Arc<Job>> {
        let names = row.as_ref().column_names().into_iter();
        let values = names.map(|name| Ok((name.to_string(), row.get(name)?)));
        Ok(Arc::new(Job {
            id: row.get("job_id")?,
            payload: row.get("payload")?,
            attempt: row.get("attempt_index")?,
            claim_id: row.get("claim_id")?,
            lease_token: row.get("lease_token")?,
            row: values.collect::<Result<_>>()?,
            taken: AtomicBool::default(),
            lost: AtomicBool::default(),
            stopping: stopping.clone(),
        }))
    }

    /// True when somebody else has taken the job over: the handler should stop,
    /// nothing that it still does counts.
    pub fn lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// True when the worker is to end, and waits for this handler.
    pub fn stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// The payload as text; "" if it is none.
    pub fn text(&self) -> &str {
        match &self.payload {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// Completes the job on a connection of the handler's own, inside a
    /// transaction with the handler's writes: both happen, or neither.
    pub fn complete(&self, db: &Connection) -> Result<()> {
        let claim: [&dyn ToSql; 2] = [&self.claim_id, &self.lease_token];
        call(db, "SELECT claimq_complete(?, ?)", &claim)
    }

    /// True for the first who asks: the loop of the worker, which begins the
    /// job, or the thread that gives it back when the worker is stopping.
    pub(crate) fn take(&self) -> bool {
        !self.lost() && !self.taken.swap(true, SeqCst)
    }

    /// Calls the handler.  A panic is a failure like any other.
    pub(crate) fn handle<R>(
        &self,
        handler: &mut impl FnMut(&Job) -> Outcome<R>,
    ) -> Outcome<R> {
        // What the handler leaves behind when it panics is its own.
        catch_unwind(AssertUnwindSafe(|| handler(self))).unwrap_or_else(|_| {
            Err(std::io::Error::other("the handler panicked").into())
        })
    }

    /// Settles the job by what its handler has returned.
    pub(crate) fn settle<R: Into<Value>>(
        &self,
        db: &Connection,
        outcome: Outcome<R>,
    ) -> Result<()> {
        match outcome {
            Ok(result) => {
                let result = result.into();
                self.verb(db, "complete(?, ?, 'result', ?)", &[&result])
            }
            Err(Failure::Reject(reason)) => {
                self.verb(db, "reject(?, ?, ?)", &[&reason])
            }
            Err(Failure::Retry { reason, delay }) => {
                let delay = delay.map(|delay| delay.as_millis() as i64);
                let verb = "retry(?, ?, ?, 'delay_ms', ?)";
                self.verb(db, verb, &[&reason, &delay])
            }
        }
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
                self.lost.store(true, SeqCst);
                Ok(())
            }
            result => result,
        }
    }
}
