//! What a worker holds, and the thread that keeps it.
use crate::submit::list;
use crate::{claim::Claim, Worker};
use rusqlite::{params, Connection, Result};
use std::ops::Deref;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{Receiver, RecvTimeoutError::Timeout};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

pub(crate) const BEAT: Duration = Duration::from_millis(50); // to see a stop

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
            let jobs = held.jobs().clone();
            let ids = jobs.iter().filter(|job| !job.gone());
            let ids: Vec<_> = ids.map(|job| job.claim_id.as_str()).collect();
            let gone = if ids.is_empty() {
                None
            } else {
                Some(wait(&db, pulse, &ids))
            };
            let rest = match gone {
                Some(Ok(_)) => Duration::ZERO,
                _ => pulse,
            };
            ended = end.recv_timeout(rest) != Err(Timeout);
            let gone = matches!(gone, Some(Ok(true)));
            let due = renewed.elapsed() >= self.lease / 3;
            if due {
                renewed = Instant::now();
            }
            let jobs = if ended { held.jobs().clone() } else { jobs };
            for job in jobs {
                let mine = || wait(&db, Duration::ZERO, &[&job.claim_id]);
                let result = if ended || self.stop.load(SeqCst) && job.take() {
                    job.verb(&db, "release(?, ?)", &[])
                } else if job.gone() {
                    Ok(())
                } else if due || gone && mine().unwrap_or(false) {
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
}

/// Waits until one of these claims does not hold any more.
fn wait(db: &Connection, limit: Duration, ids: &[&str]) -> Result<bool> {
    let limit = limit.as_millis() as i64;
    db.prepare_cached("SELECT claimq_wait(?, 'claims', ?)")?
        .query_row(params![limit, list(ids)], |row| row.get(0))
}
