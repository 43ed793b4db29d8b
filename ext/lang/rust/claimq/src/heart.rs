//! What a worker holds, and the thread that keeps it.
use crate::submit::list;
use crate::{claim::Claim, Worker};
use rusqlite::Connection;
use std::ops::Deref;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError::Timeout};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) const BEAT: Duration = Duration::from_millis(50);
const ASKED: usize = 1024; // claims that claimq_wait takes

/// The jobs that are begun, and those that are not.
pub(crate) struct Held<T> {
    jobs: Mutex<Vec<Arc<T>>>,
    /// Who claims for an idle thread has this.
    pub(crate) looking: Mutex<()>,
}

impl<T: Deref<Target = Claim>> Held<T> {
    pub(crate) fn new(jobs: Vec<Arc<T>>) -> Held<T> {
        let jobs = Mutex::new(jobs);
        let looking = Mutex::default();
        Held { jobs, looking }
    }

    fn jobs(&self) -> MutexGuard<'_, Vec<Arc<T>>> {
        self.jobs.lock().unwrap()
    }

    pub(crate) fn add(&self, jobs: Vec<Arc<T>>) {
        self.jobs().extend(jobs);
    }

    /// The same job may have been claimed again.
    pub(crate) fn remove(&self, job: &T) {
        self.jobs().retain(|other| other.claim_id != job.claim_id);
    }

    /// The next one that is not begun, and not lost: it is begun now.
    pub(crate) fn begin(&self) -> Option<Arc<T>> {
        let mut jobs = self.jobs();
        jobs.retain(|job| job.taken() || !job.gone());
        jobs.iter().find(|job| job.take()).cloned()
    }

    /// Is there one that is not begun?
    pub(crate) fn waiting(&self) -> bool {
        self.jobs().iter().any(|job| !job.taken() && !job.gone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs().is_empty()
    }
}

impl Worker {
    /// The thread.  It renews what is held at a third of the lease, and watches
    /// whether any of it is gone; it gives back what is not begun once the
    /// worker is stopping, and everything at the end.  What fails is tried again
    /// the next time, or the lease ends.
    pub(crate) fn beat<T: Deref<Target = Claim>>(
        &self,
        db: Connection,
        held: &Held<T>,
        end: Receiver<()>,
    ) {
        let lease = self.lease.as_millis() as i64;
        let pulse = BEAT.min(self.lease / 3);
        let (mut renewed, mut ended) = (Instant::now(), false);
        while !ended {
            ended = end.recv_timeout(pulse) != Err(Timeout);
            let due = renewed.elapsed() >= self.lease / 3;
            if due {
                renewed = Instant::now();
            }
            let jobs = held.jobs().clone();
            let some_gone = !due && !ended && self.gone(&db, &jobs);
            for job in jobs {
                let result = if ended || self.stop.load(SeqCst) && job.take() {
                    job.verb(&db, "release(?, ?)", &[])
                } else if due && !job.gone()
                    || some_gone && self.gone(&db, &[job.clone()])
                {
                    job.verb(&db, "renew(?, ?, ?)", &[&lease])
                } else {
                    Ok(())
                };
                if let Err(error) = result {
                    let id = &job.claim_id;
                    (self.log)(&format!("renewing {id}: {error}"));
                }
            }
        }
    }

    /// Has one of these been taken away, and nobody knows it yet?  This does
    /// not wait for it: with short jobs it would be woken by the end of each.
    fn gone<T: Deref<Target = Claim>>(
        &self,
        db: &Connection,
        jobs: &[Arc<T>],
    ) -> bool {
        let open = jobs.iter().filter(|job| !job.gone()).take(ASKED);
        let ids: Vec<_> = open.map(|job| job.claim_id.as_str()).collect();
        if ids.is_empty() {
            return false;
        }
        db.prepare_cached("SELECT claimq_wait(0, 'claims', ?)")
            .and_then(|mut look| look.query_row([list(ids)], |row| row.get(0)))
            .unwrap_or_else(|error| {
                (self.log)(&format!("looking at what is held: {error}"));
                false
            })
    }
}
