use crate::db::{call, open, transaction};
use crate::job::{Job, Outcome};
use rusqlite::{params, types::Value, Connection, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag::register, low_level::unregister};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError::Timeout};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, UNIX_EPOCH};
use std::{process, thread};

const BEAT: Duration = Duration::from_millis(50); // a stop is seen after it
const CLAIM: &str = "SELECT * FROM claimq_lane(?, ?, ?, ?)
    WHERE capabilities=? AND partition=?";
const WAIT: &str = "SELECT claimq_wait(500, 'lane', ?, 'capabilities', ?,
    'partition', ?)";
type Held = Mutex<Vec<Arc<Job>>>;

/// The loop of a worker, whole.
///
/// One connection claims, waits and settles, by what the handler returns
/// ([`Outcome`]); it settles a job and takes the next one in the same
/// transaction.  A thread with a connection of its own renews what is held at a
/// third of the lease.  If somebody else has taken a job over (after a pause
/// longer than the lease, or by claimq_revoke), [`Job::lost`] says so, and the
/// worker goes on with the next job.  SIGTERM and SIGINT, or the flag `stop`,
/// end the loop: what is held and not begun is given back at once, and the job
/// at hand is finished.
#[derive(Debug)]
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
}

impl Worker {
    pub fn new(path: impl AsRef<Path>, lane: &str) -> Worker {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Worker {
            path: path.as_ref().to_path_buf(),
            lane: lane.to_string(),
            owner: format!("{}:{:x}", process::id(), now),
            lease: Duration::from_secs(30),
            batch: 1,
            capabilities: "[]".to_string(),
            partition: 0,
            stop: Arc::default(),
        }
    }

    /// Works until it is stopped; returns how many jobs were begun.
    pub fn run<R: Into<Value>>(
        &self,
        mut handler: impl FnMut(&Job) -> Outcome<R>,
    ) -> Result<u64> {
        let (mut db, second) = (open(&self.path)?, open(&self.path)?);
        let signals = [SIGTERM, SIGINT].map(|s| register(s, self.stop.clone()));
        let lane = params![self.lane, self.capabilities, self.partition];
        let held = Held::default();
        let (end, ended) = channel();
        let result = thread::scope(|scope| {
            scope.spawn(|| self.renew(second, &held, ended));
            let (mut begun, _end) = (0, end); // the thread ends with _end
            while !self.stop.load(SeqCst) {
                let mut jobs = held.lock().unwrap().clone();
                if let Some(job) = jobs.iter().find(|job| job.take()).cloned() {
                    begun += 1;
                    let outcome = job.handle(&mut handler);
                    let tx = transaction(&mut db)?; // one commit for each job
                    job.settle(&tx, outcome)?;
                    jobs.retain(|other| other.id != job.id && !other.lost());
                    if jobs.is_empty() && !self.stop.load(SeqCst) {
                        jobs = self.claim(&tx)?;
                    }
                    tx.commit()?;
                } else {
                    jobs = self.claim(&db)?;
                    if jobs.is_empty() {
                        call(&db, WAIT, lane)?;
                    }
                }
                *held.lock().unwrap() = jobs;
            }
            Ok(begun)
        });
        for id in signals.into_iter().flatten() {
            unregister(id);
        }
        result
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let (lane, owner, can) = (&self.lane, &self.owner, &self.capabilities);
        let lease = self.lease.as_millis() as i64;
        let values = (lane, owner, lease, self.batch, can, self.partition);
        db.prepare_cached(CLAIM)?
            .query_map(values, |row| Job::new(row, &self.stop))?
            .collect()
    }

    /// The thread.  It renews what is held at a third of the lease, and gives
    /// back what is not begun once the worker is stopping, and everything at
    /// the end.  What fails is tried again the next time, or the lease ends.
    fn renew(&self, db: Connection, held: &Held, end: Receiver<()>) {
        let lease = self.lease.as_millis() as i64;
        let (mut renewed, mut ended) = (Instant::now(), false);
        while !ended {
            ended = end.recv_timeout(BEAT.min(self.lease / 3)) != Err(Timeout);
            let due = renewed.elapsed() >= self.lease / 3;
            if due {
                renewed = Instant::now();
            }
            for job in held.lock().unwrap().iter() {
                if ended || self.stop.load(SeqCst) && job.take() {
                    let _ = job.verb(&db, "release(?, ?)", &[]);
                } else if due {
                    let _ = job.verb(&db, "renew(?, ?, ?)", &[&lease]);
                }
            }
        }
    }
}
