use crate::job::Job;
use rusqlite::Connection;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(50);

/// The jobs that a worker holds; the first of them may be begun.
#[derive(Default)]
pub(crate) struct Held {
    jobs: Mutex<Vec<Arc<Job>>>,
}

impl Held {
    /// The first job that is not lost, which is begun then.
    pub fn begin(&self) -> Option<Arc<Job>> {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.retain(|job| !job.lost());
        let job = jobs.first()?;
        job.begun.store(true, SeqCst);
        Some(job.clone())
    }

    /// Is there no other job than the one that is begun?
    pub fn is_last(&self) -> bool {
        self.jobs.lock().unwrap().len() <= 1
    }

    pub fn remove_first(&self) {
        self.jobs.lock().unwrap().remove(0);
    }

    pub fn add(&self, jobs: Vec<Arc<Job>>) {
        self.jobs.lock().unwrap().extend(jobs);
    }

    /// Releases some of the jobs.  Where that fails, the lease ends.
    pub fn give_back(&self, db: &Connection, which: impl Fn(&Job) -> bool) {
        let mut jobs = self.jobs.lock().unwrap();
        let (back, keep): (Vec<_>, _) =
            jobs.drain(..).partition(|job| which(job));
        *jobs = keep;
        drop(jobs);
        for job in back {
            let _ = job.verb(db, "release(?, ?)", &[]);
        }
    }

    /// What the thread does until the end: it renews at a third of the lease,
    /// and when the worker is stopping it gives back what is not begun.  A
    /// renewal that fails for another reason than a lost claim is tried again
    /// the next time.
    pub fn renew(
        &self,
        db: Connection,
        lease: Duration,
        stop: &AtomicBool,
        end: &AtomicBool,
    ) {
        let mut due = Instant::now() + lease / 3;
        while !end.load(SeqCst) {
            thread::sleep(BEAT.min(lease / 3));
            if stop.load(SeqCst) {
                self.give_back(&db, |job| !job.begun.load(SeqCst));
            }
            if Instant::now() >= due {
                due = Instant::now() + lease / 3;
                let jobs = self.jobs.lock().unwrap().clone();
                for job in jobs.iter().filter(|job| !job.lost()) {
                    let lease = lease.as_millis() as i64;
                    let _ = job.verb(&db, "renew(?, ?, ?)", &[&lease]);
                }
            }
        }
    }
}
