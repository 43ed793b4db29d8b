//! The threads of a worker.
use crate::claim::Call;
use crate::db::{call, transaction};
use crate::heart::{Held, BEAT};
use crate::job::{Job, Outcome};
use crate::patience::File;
use crate::submit::list;
use crate::Worker;
use rusqlite::{types::Value, Connection, Result};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const CLAIM: &str = "SELECT * FROM claimq_lane(?, ?, ?, ?)
    WHERE capabilities=? AND partition IS ?";
const WAIT: &str = "SELECT claimq_wait(500, 'lanes', ?, 'capabilities', ?,
    'partition', ?)";

impl Worker {
    /// Opens a connection for each thread, and starts them.
    pub(crate) fn work<R: Into<Value>>(
        &self,
        drain: bool,
        handler: &(impl Fn(&Job) -> Outcome<R> + Sync),
        begun: &AtomicU64,
        opened: impl Fn(),
    ) -> Result<()> {
        let mut file = File::new(&self.path);
        let mut all = Vec::new();
        for _ in 0..=self.concurrency.max(1) {
            let open = || self.open();
            match self.patiently(&file, "opening", Duration::ZERO, open)? {
                Some(db) => all.push(db),
                None => return Ok(()), // it was stopped
            }
        }
        file.remember();
        opened();
        let (held, file) = (Held::new(Vec::new()), &file);
        let (end, ended) = channel();
        thread::scope(|scope| {
            let (held, last) = (&held, all.pop());
            scope.spawn(move || last.map(|db| self.beat(db, held, ended)));
            let mut threads = Vec::new();
            for db in all {
                threads.push(scope.spawn(move || {
                    let turn = Turn {
                        worker: self,
                        held,
                        file,
                        drain,
                        begun,
                    };
                    let result = turn.repeat(db, handler);
                    if result.is_err() {
                        self.stop.store(true, SeqCst); // the others, too
                    }
                    result
                }));
            }
            let results: Vec<_> =
                threads.into_iter().map(|thread| thread.join()).collect();
            drop(end); // and so ends the thread that renews
            let raise = |why| std::panic::resume_unwind(why);
            results
                .into_iter()
                .map(|r| r.unwrap_or_else(raise))
                .collect()
        })
    }

    /// Capabilities and partitions, for claims and waits.
    fn scope(&self) -> (String, Option<String>) {
        let tasks = self.tasks.keys().map(|name| format!("task:{name}"));
        let able = list(self.capabilities.iter().cloned().chain(tasks));
        (able, self.partitions.as_ref().map(|all| format!("{all:?}")))
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let (owner, lease) = (&self.owner, self.lease.as_millis() as i64);
        let (able, partitions) = self.scope();
        let mut all: Vec<Arc<Job>> = Vec::new();
        for lane in &self.lanes {
            let left = self.batch.max(1) - all.len() as i64;
            if left <= 0 {
                break;
            }
            let values = (lane, owner, lease, left, &able, &partitions);
            let jobs: Result<Vec<Job>> = db
                .prepare_cached(CLAIM)?
                .query_map(values, |row| Job::new(row, self))?
                .collect();
            if jobs.is_err() && !all.is_empty() {
                break; // it will come again
            }
            for job in jobs? {
                all.push(job.read(db)?);
            }
        }
        Ok(all)
    }
}

/// What the threads of a worker share.
struct Turn<'a> {
    worker: &'a Worker,
    held: &'a Held<Job>,
    file: &'a File,
    drain: bool,
    begun: &'a AtomicU64,
}

impl Turn<'_> {
    fn repeat<R: Into<Value>>(
        &self,
        mut db: Connection,
        handler: &impl Fn(&Job) -> Outcome<R>,
    ) -> Result<()> {
        let (worker, held, file) = (self.worker, self.held, self.file);
        while !worker.stop.load(SeqCst) {
            file.check()?;
            if let Some(job) = held.begin() {
                self.begun.fetch_add(1, SeqCst);
                let calls = self.handle(&job, handler);
                let what = format!("settling job {}", job.id);
                let settle = || self.settle(&mut db, &job, &calls);
                // What cannot be settled is given back at the end.
                worker.patiently(file, &what, worker.lease, settle)?;
                continue;
            }
            let looking = held.looking.lock();
            let idle = held.is_empty(); // so nobody can put more
            let claim = || worker.claim(&db);
            let what = "looking for jobs";
            let jobs = worker.patiently(file, what, Duration::ZERO, claim)?;
            let jobs = jobs.unwrap_or_default();
            let found = !jobs.is_empty();
            held.add(jobs);
            drop(looking);
            if self.drain && idle && !found {
                break;
            } else if self.drain && !found {
                thread::sleep(BEAT);
            } else if !found {
                let (able, partitions) = worker.scope();
                let lanes = list(&worker.lanes);
                let wait = || call(&db, WAIT, &[&lanes, &able, &partitions]);
                worker.patiently(file, "waiting", Duration::ZERO, wait)?;
            }
        }
        Ok(())
    }

    fn handle<R: Into<Value>>(
        &self,
        job: &Job,
        handler: &impl Fn(&Job) -> Outcome<R>,
    ) -> Vec<Call> {
        let Worker { tasks, log, .. } = self.worker;
        match job.task.as_ref().and_then(|name| tasks.get(name)) {
            Some(task) => job.handle(task, *log),
            None => job.handle(handler, *log),
        }
    }

    /// Settles the job, and takes the next ones with the same commit unless
    /// some wait to be begun: one commit for each job.
    fn settle(
        &self,
        db: &mut Connection,
        job: &Job,
        calls: &[Call],
    ) -> Result<()> {
        let (worker, tx) = (self.worker, transaction(db)?);
        job.settle(&tx, calls, worker.log)?;
        let idle = !self.held.waiting() && !worker.stop.load(SeqCst);
        let jobs = if idle { worker.claim(&tx)? } else { Vec::new() };
        tx.commit()?;
        self.held.add(jobs);
        self.held.remove(job);
        Ok(())
    }
}
