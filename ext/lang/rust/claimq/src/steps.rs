//! Durable steps: see ext/doc/steps.md of the source archive.
use crate::db::open_worker;
use crate::{Failure, Job, Outcome, Worker};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Params, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

const STORED: &str = "SELECT value FROM claimq_steps WHERE job_id=? AND name=?";
const STORE: &str = "SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?)";
const OPEN: &str = "SELECT id FROM (SELECT ? AS id) -- open, or never there
    WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
                                 WHERE name='claimq_job')
       OR EXISTS (SELECT 1 FROM claimq_job
                   WHERE job_id=id AND terminal_at_ms IS NULL)";

/// The steps of a job have a connection of their own, once they need it.
#[derive(Debug)]
pub(crate) struct Steps {
    path: PathBuf,
    timeout: Duration,
    full: bool,
    lease: i64,
    db: Mutex<Option<Connection>>,
    naps: AtomicUsize,
}

impl Steps {
    pub(crate) fn new(worker: &Worker) -> Steps {
        Steps {
            path: worker.path.clone(),
            timeout: worker.timeout,
            full: worker.synchronous_full,
            lease: worker.lease.as_millis() as i64,
            db: Mutex::default(),
            naps: AtomicUsize::default(),
        }
    }
}

impl Job {
    /// What the step of this name gave when it was run the first time, in
    /// whichever attempt of the job; if it never was, runs `f` and stores what
    /// it gives.  A failure of `f` is returned, and nothing is stored.
    pub fn step<R: Into<Value>>(
        &self,
        name: &str,
        f: impl FnOnce() -> Outcome<R>,
    ) -> Outcome<Value> {
        let stored = self.one(STORED, (self.id, name));
        let stored = match stored {
            // until there is a first step
            Err(e) if e.to_string().contains("no such table") => None,
            stored => stored?,
        };
        if let Some(value) = stored {
            return Ok(value);
        }
        let (id, token) = (&self.claim_id, &self.lease_token);
        let value: Value = f()?.into();
        let stored =
            self.one(STORE, (id, token, name, value, self.steps.lease))?;
        Ok(stored.unwrap_or(Value::Null))
    }

    /// Gives the job back for that time, once: the handler returns the failure
    /// (by `?`), and begins anew when the job comes back; then this is `Ok`.
    /// Call sleeps in the same order each time.
    pub fn sleep(&self, time: Duration) -> Outcome<()> {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default();
        let nap = self.steps.naps.fetch_add(1, SeqCst) + 1;
        let until = now + time + Duration::from_nanos(999_999);
        let until = self
            .step(&format!("sleep-{nap}"), || Ok(until.as_millis() as i64))?;
        let Value::Integer(until) = until else {
            return Ok(());
        };
        match until - now.as_millis() as i64 {
            ..=0 => Ok(()),
            left => Err(Failure::Release {
                delay: Some(Duration::from_millis(left as u64)),
                after: Vec::new(),
            }),
        }
    }

    /// `Ok` if these jobs have ended, however.  Else the handler returns the
    /// failure (by `?`), and begins anew when they have.
    pub fn wait_for(&self, ids: &[i64]) -> Outcome<()> {
        for id in ids {
            if self.one(OPEN, [id])?.is_some() {
                let (delay, after) = (None, ids.to_vec());
                return Err(Failure::Release { delay, after });
            }
        }
        Ok(())
    }

    fn one(&self, sql: &str, values: impl Params) -> Result<Option<Value>> {
        let Steps { path, db, .. } = &self.steps;
        let mut db = db.lock().unwrap();
        let db = match db.take() {
            Some(open) => db.insert(open),
            None => {
                let (timeout, full) = (self.steps.timeout, self.steps.full);
                db.insert(open_worker(path, timeout, full)?)
            }
        };
        db.query_row(sql, values, |row| row.get(0)).optional()
    }
}
