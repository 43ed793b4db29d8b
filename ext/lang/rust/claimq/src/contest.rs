use crate::claim::Claim;
use crate::db::call;
use crate::heart::Held;
use crate::patience::File;
use crate::Worker;
use rusqlite::{params, Connection, Result};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A subject that one at a time can hold: a leader, a named lock.
pub struct Contest {
    pub label: String,
    pub kind: i64,
    /// Owner, lease, timeout, create, log and stop, as those of a worker.
    pub options: Worker,
}

/// Who has this holds the subject.  A thread renews it; the end of this value
/// gives the subject to others.
pub struct Hold {
    claim: Arc<Subject>,
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Subject(Claim);

impl Deref for Subject {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.0
    }
}

impl Deref for Hold {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Contest {
    pub fn new(path: impl AsRef<Path>, label: &str) -> Contest {
        Contest {
            label: label.to_string(),
            kind: 0,
            options: Worker::new(path, ""),
        }
    }

    /// Waits until it holds the subject; `None` if it was stopped meanwhile.
    pub fn acquire(&self) -> Result<Option<Hold>> {
        self.contend(true)
    }

    /// `None` if somebody else holds the subject.
    pub fn try_acquire(&self) -> Result<Option<Hold>> {
        self.contend(false)
    }

    fn contend(&self, wait: bool) -> Result<Option<Hold>> {
        let options = &self.options;
        let file = File::new(&options.path);
        let what = format!("contest of {}", self.label);
        let open = || options.open();
        let db = options.patiently(&file, &what, Duration::ZERO, open)?;
        let Some(db) = db else {
            return Ok(None);
        };
        loop {
            let claim = || self.claim(&db);
            let won = options.patiently(&file, &what, Duration::ZERO, claim)?;
            if let Some(claim) = won.flatten() {
                return Ok(Some(self.hold(claim, db)));
            }
            if !wait || options.stop.load(SeqCst) {
                return Ok(None);
            }
            let sql = "SELECT claimq_wait(500, 'contest', ?, 'kind', ?)";
            let wait = || call(&db, sql, params![self.label, self.kind]);
            options.patiently(&file, &what, Duration::ZERO, wait)?;
        }
    }

    fn claim(&self, db: &Connection) -> Result<Option<Claim>> {
        let options = &self.options;
        let lease = options.lease.as_millis() as i64;
        let sql = "SELECT * FROM claimq_contest(?, ?, ?) WHERE kind=?";
        let values = (&self.label, &options.owner, lease, self.kind);
        db.query_row(sql, values, |row| {
            let claimed = row.get::<_, String>("outcome")? == "claimed";
            claimed.then(|| Claim::new(row, options)).transpose()
        })
    }

    fn hold(&self, claim: Claim, db: Connection) -> Hold {
        let claim = Arc::new(Subject(claim));
        claim.take(); // a stop does not give it back
        let (end, ended) = channel();
        let held = Held::new(vec![claim.clone()]);
        let mut keeper = Worker::new(&self.options.path, "");
        keeper.lease = self.options.lease;
        keeper.log = self.options.log;
        let thread = thread::spawn(move || keeper.beat(db, &held, ended));
        Hold {
            claim,
            end: Some(end),
            thread: Some(thread),
        }
    }
}
