use crate::db::{call, open, transaction};
use crate::job::{Failure, Job};
use rusqlite::types::Value;
use rusqlite::{Connection, Result, ToSql};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag::register, low_level::unregister};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{mem, process, thread};

const WAIT_MS: i64 = 500; // a stop is seen when it returns
const BEAT: Duration = Duration::from_millis(50);

/// The loop of a worker, whole.
///
/// What the handler returns decides what becomes of the job: `Ok` completes it,
/// with the value as its result; see [`Failure`] for the rest.
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
    held: Mutex<Vec<Arc<Job>>>,
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
            held: Mutex::default(),
        }
    }

    /// Works until it is stopped; returns how many jobs were begun.
    pub fn run<R: Into<Value>>(
        &self,
        handler: impl FnMut(&Job) -> std::result::Result<R, Failure>,
    ) -> Result<u64> {
        let signals =
            [SIGTERM, SIGINT].map(|signal| register(signal, self.stop.clone()));
        let mut db = open(&self.path)?;
        let second = open(&self.path)?;
        let end = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            scope.spawn(|| self.renew(second, &end));
            let result = self.work(&mut db, handler);
            end.store(true, SeqCst);
            result
        });
        // What could not be settled, or is left after an error.
        for job in mem::take(&mut *self.held.lock().unwrap()) {
            let _ = job.verb(&db, "release(?, ?)", &[]);
        }
        signals.into_iter().flatten().for_each(|id| {
            unregister(id);
        });
        result
    }

    fn stopping(&self) -> bool {
        self.stop.load(SeqCst)
    }

    fn work<R: Into<Value>>(
        &self,
        db: &mut Connection,
        mut handler: impl FnMut(&Job) -> std::result::Result<R, Failure>,
    ) -> Result<u64> {
        let mut begun = 0;
        while !self.stopping() {
            if let Some(job) = self.begin() {
                begun += 1;
                let outcome = handler(&job);
                self.settle(db, &job, outcome)?;
                continue;
            }
            let jobs = self.claim(db)?;
            if jobs.is_empty() {
                call(
                    db,
                    "SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,
                                        'partition', ?)",
                    &[
                        &WAIT_MS,
                        &self.lane,
                        &self.capabilities,
                        &self.partition,
                    ],
                )?;
            }
            self.held.lock().unwrap().extend(jobs);
        }
        Ok(begun)
    }

    /// The next job that is held, which is begun then.
    fn begin(&self) -> Option<Arc<Job>> {
        let mut held = self.held.lock().unwrap();
        held.retain(|job| !job.lost());
        let job = held.first().filter(|_| !self.stopping())?;
        job.begun.store(true, SeqCst);
        Some(job.clone())
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let mut statement = db.prepare_cached(
            "SELECT * FROM claimq_lane WHERE lane=? AND owner=? AND ttl_ms=?
               AND max_jobs=? AND capabilities=? AND partition=?",
        )?;
        let names = statement.column_names();
        let names: Vec<String> =
            names.into_iter().map(|s| s.to_string()).collect();
        let lease = self.lease.as_millis() as i64;
        let values: [&dyn ToSql; 6] = [
            &self.lane,
            &self.owner,
            &lease,
            &self.batch,
            &self.capabilities,
            &self.partition,
        ];
        let rows = statement.query_map(values, |row| {
            Ok(Arc::new(Job::new(row, &names, self.stop.clone())?))
        })?;
        rows.collect()
    }

    /// Settles the job, and takes the next one with the same commit.
    fn settle<R: Into<Value>>(
        &self,
        db: &mut Connection,
        job: &Arc<Job>,
        outcome: std::result::Result<R, Failure>,
    ) -> Result<()> {
        let tx = transaction(db)?;
        match outcome {
            _ if job.lost() => {}
            Ok(result) => {
                let result = result.into();
                job.verb(&tx, "complete(?, ?, 'result', ?)", &[&result])?
            }
            Err(Failure::Reject(reason)) => {
                job.verb(&tx, "reject(?, ?, ?)", &[&reason])?
            }
            Err(Failure::Retry { reason, delay }) => {
                let verb = "retry(?, ?, ?, 'delay_ms', ?)";
                let delay = delay.map(|delay| delay.as_millis() as i64);
                job.verb(&tx, verb, &[&reason, &delay])?
            }
        }
        let last = self.held.lock().unwrap().len() <= 1;
        let next = if last && !self.stopping() {
            self.claim(&tx)?
        } else {
            vec![]
        };
        tx.commit()?;
        let mut held = self.held.lock().unwrap();
        held.retain(|other| !Arc::ptr_eq(other, job));
        held.extend(next);
        Ok(())
    }

    /// The thread: renews what is held, until the end; when the worker is
    /// stopping, gives back what is not begun.  What fails here for another
    /// reason than a lost claim is tried again at the next beat, or the lease
    /// ends.
    fn renew(&self, db: Connection, end: &AtomicBool) {
        let lease = self.lease.as_millis() as i64;
        let mut due = Instant::now() + self.lease / 3;
        while !end.load(SeqCst) {
            thread::sleep(BEAT.min(self.lease / 3));
            let mut held = self.held.lock().unwrap();
            let stopping = self.stopping();
            let (keep, back): (Vec<_>, Vec<_>) = held
                .drain(..)
                .partition(|job| !stopping || job.begun.load(SeqCst));
            *held = keep.clone();
            drop(held);
            for job in back {
                let _ = job.verb(&db, "release(?, ?)", &[]);
            }
            if Instant::now() >= due {
                due = Instant::now() + self.lease / 3;
                for job in keep.iter().filter(|job| !job.lost()) {
                    let _ = job.verb(&db, "renew(?, ?, ?)", &[&lease]);
                }
            }
        }
    }
}
