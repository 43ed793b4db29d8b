use crate::db::open_worker;
use crate::job::{Failure, Job, Outcome};
use crate::jobs::Jobs;
use rusqlite::types::{Null, Value};
use rusqlite::{ffi, Connection, Error, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

pub(crate) type Task = Box<dyn Fn(&Job) -> Outcome<Value> + Send + Sync>;

/// The loop of a worker, whole.
///
/// Each of its threads claims, waits, works and settles, by what the handler
/// returns ([`Outcome`]); it settles a job and takes the next one in the same
/// transaction.  One more thread renews all that is held at a third of the
/// lease.  If a job is taken away (after a pause longer than the lease, by
/// claimq_cancel or claimq_revoke), [`Job::lost`] says so within 100 ms,
/// and the worker goes on with the next job.
///
/// A lock that lasts longer than the timeout, or a full disk, does not end it:
/// it says so in the log, waits and goes on, and what it has done is settled
/// then.  A file that was removed or replaced ends it: its jobs are not there
/// any more.  SIGTERM and SIGINT, or the flag `stop`, end the loop: what is held
/// and not begun is given back at once, and the jobs at hand are finished.
pub struct Worker {
    pub path: PathBuf,
    /// Jobs of an earlier one go first.
    pub lanes: Vec<String>,
    /// The name under which jobs are held; by default one of its own.
    pub owner: String,
    /// How long a job is held before others may take it, if it is not renewed.
    pub lease: Duration,
    /// How many handlers run at once.
    pub concurrency: usize,
    /// How many jobs are taken at a time.
    pub batch: i64,
    /// What this worker can do.
    pub capabilities: Vec<String>,
    /// Whose jobs are taken; `None`: all.
    pub partitions: Option<Vec<i64>>,
    /// How long to wait for a lock.
    pub timeout: Duration,
    /// Create the file if there is none.
    pub create: bool,
    /// PRAGMA synchronous=FULL for its connections, instead of NORMAL.
    pub synchronous_full: bool,
    /// Gets beginning and end, failures, locks and full disks; by default on
    /// stderr.
    pub log: fn(&str),
    /// Ends `run` when it is set to true.
    pub stop: Arc<AtomicBool>,
    pub(crate) tasks: HashMap<String, Task>,
}

impl Worker {
    pub fn new(path: impl AsRef<Path>, lane: &str) -> Worker {
        let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
        Worker {
            path: path.as_ref().to_path_buf(),
            lanes: vec![lane.to_string()],
            owner: format!("{}:{:x}", process::id(), now),
            lease: Duration::from_secs(30),
            concurrency: 1,
            batch: 1,
            capabilities: Vec::new(),
            partitions: None,
            timeout: Duration::from_secs(30),
            create: false,
            synchronous_full: false,
            log: |line| eprintln!("claimq: {line}"),
            stop: Arc::default(),
            tasks: HashMap::new(),
        }
    }

    /// Jobs that are submitted with the option `task` of this name get this
    /// handler.  A worker gets no job of a task that it does not know: those wait
    /// for one that does.
    pub fn task<R: Into<Value>>(
        &mut self,
        name: &str,
        handler: impl Fn(&Job) -> Outcome<R> + Send + Sync + 'static,
    ) {
        let handler = move |job: &Job| Ok(handler(job)?.into());
        self.tasks.insert(name.to_string(), Box::new(handler));
    }

    /// Works until it is stopped; returns how many jobs were begun.  The handler
    /// gets the jobs without a task.
    pub fn run<R: Into<Value>>(
        &self,
        handler: impl Fn(&Job) -> Outcome<R> + Sync,
    ) -> Result<u64> {
        self.start(false, handler)
    }

    /// As `run`, for a worker that has nothing but tasks.
    pub fn run_tasks(&self) -> Result<u64> {
        self.start(false, no_task)
    }

    /// Works until no job is claimable now; returns how many jobs were begun:
    /// for tests.  It does not wait for jobs that are delayed.
    pub fn drain<R: Into<Value>>(
        &self,
        handler: impl Fn(&Job) -> Outcome<R> + Sync,
    ) -> Result<u64> {
        self.start(true, handler)
    }

    /// As `drain`, for a worker that has nothing but tasks.
    pub fn drain_tasks(&self) -> Result<u64> {
        self.start(true, no_task)
    }

    fn start<R: Into<Value>>(
        &self,
        drain: bool,
        handler: impl Fn(&Job) -> Outcome<R> + Sync,
    ) -> Result<u64> {
        let worker = self;
        self.work(&Jobs { worker, handler }, drain)
    }

    pub(crate) fn open(&self) -> Result<Connection> {
        let path = self.path.to_string_lossy();
        let plain = !path.is_empty()
            && path != ":memory:"
            && !path.starts_with("file:");
        if plain && !self.create && !self.path.exists() {
            return Err(Error::SqliteFailure(
                ffi::Error::new(ffi::SQLITE_CANTOPEN),
                Some(format!(
                    "there is no file {path}: create it with claimq::open(), \
                     or set create"
                )),
            ));
        }
        open_worker(&self.path, self.timeout, self.synchronous_full)
    }
}

fn no_task(_: &Job) -> Outcome<Null> {
    Err(Failure::Error {
        class: "no handler",
        reason: "no handler for jobs without a task".to_string(),
    })
}
