use crate::db::{call, open, transaction};
use crate::held::Held;
use crate::job::{Job, Outcome};
use rusqlite::types::Value;
use rusqlite::{params, Connection, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag::register, low_level::unregister};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{process, thread};

const WAIT_MS: i64 = 500; // a stop is seen when it returns

/// The loop of a worker, whole.
///
/// What the handler returns decides what becomes of the job: `Ok` completes it,
/// with the value as its result; see [`crate::Failure`] for the rest.  A panic of the
/// handler is a failure like any other.
///
/// One connection claims, waits and settles; it settles a job and takes the
/// next one in the same transaction.  A thread with a connection of its own
/// renews what is held at a third of the lease.  If somebody else has taken a
/// job over (after a pause longer than the lease, or by claimq_revoke),
/// [`Job::lost`] says so, and the worker goes on with the next job.
///
/// SIGTERM and SIGINT, or the flag `stop`, end the loop: what is held and not
/// begun is given back at once, and the job at hand is finished.
pub struct Worker {
    pub path: PathBuf,
    pub lane: String,
    /// The name under which jobs are held; by default one of its own.
    pub owner: String,
    /// How long a job is held before others may take it, if it is not renewed.
    pub lease: Duration,
    /// How many jobs are taken at a time; they are worked on one by one.
    pub batch: i64,
    /// What this worker can do, as a JSON array of strings.
    pub capabilities: String,
    pub partition: i64,
    /// Ends `run` when it is set to true.
    pub stop: Arc<AtomicBool>,
    held: Held,
}

impl Worker {
    pub fn new(path: impl AsRef<Path>, lane: &str) -> Worker {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        Worker {
            path: path.as_ref().to_path_buf(),
            lane: lane.to_string(),
            owner: format!("{}:{:x}", process::id(), now),
            lease: Duration::from_secs(30),
            batch: 1,
            capabilities: "[]".to_string(),
            partition: 0,
            stop: Arc::default(),
            held: Held::default(),
        }
    }

    /// Works until it is stopped; returns how many jobs were begun.
    pub fn run<R: Into<Value>>(
        &self,
        handler: impl FnMut(&Job) -> Outcome<R>,
    ) -> Result<u64> {
        let (mut db, second) = (open(&self.path)?, open(&self.path)?);
        let signals = [SIGTERM, SIGINT].map(|s| register(s, self.stop.clone()));
        let end = AtomicBool::new(false);
        let renew = || self.held.renew(second, self.lease, &self.stop, &end);
        let result = thread::scope(|scope| {
            scope.spawn(renew);
            let result = self.work(&mut db, handler);
            end.store(true, SeqCst);
            result
        });
        self.held.give_back(&db, |_| true); // also what could not be settled
        for id in signals.into_iter().flatten() {
            unregister(id);
        }
        result
    }

    fn work<R: Into<Value>>(
        &self,
        db: &mut Connection,
        mut handler: impl FnMut(&Job) -> Outcome<R>,
    ) -> Result<u64> {
        let mut begun = 0;
        while !self.stopping() {
            let taken;
            if let Some(job) = self.held.begin() {
                begun += 1;
                let outcome = job.handle(&mut handler);
                taken = self.settle(db, &job, outcome)?;
            } else {
                taken = self.claim(db)?;
                if taken.is_empty() {
                    self.wait(db)?;
                }
            }
            self.held.add(taken);
        }
        Ok(begun)
    }

    fn stopping(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Settles the job, and takes the next one with the same commit.
    fn settle<R: Into<Value>>(
        &self,
        db: &mut Connection,
        job: &Job,
        outcome: Outcome<R>,
    ) -> Result<Vec<Arc<Job>>> {
        let mut taken = vec![];
        let tx = transaction(db)?;
        job.settle(&tx, outcome)?;
        if self.held.is_last() && !self.stopping() {
            taken = self.claim(&tx)?;
        }
        tx.commit()?;
        self.held.remove_first();
        Ok(taken)
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let (lease, can) = (self.lease.as_millis() as i64, &self.capabilities);
        let sql = "SELECT * FROM claimq_lane WHERE lane=? AND owner=?
                   AND ttl_ms=? AND max_jobs=? AND capabilities=?
                   AND partition=?";
        db.prepare_cached(sql)?
            .query_map(
                (
                    &self.lane,
                    &self.owner,
                    lease,
                    self.batch,
                    can,
                    self.partition,
                ),
                |row| Ok(Arc::new(Job::new(row, &self.stop)?)),
            )?
            .collect()
    }

    fn wait(&self, db: &Connection) -> Result<()> {
        let sql = "SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,
                                      'partition', ?)";
        let (can, partition) = (&self.capabilities, self.partition);
        call(db, sql, params![WAIT_MS, self.lane, can, partition])
    }
}
