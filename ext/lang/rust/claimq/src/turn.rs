//! The threads of a loop, whatever it claims.
use crate::claim::{Call, Claim};
use crate::db::{gate, transaction};
use crate::heart::{Held, BEAT};
use crate::patience::File;
use crate::Worker;
use rusqlite::{Connection, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag::register, low_level::unregister};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What a loop claims, waits for and does.
pub(crate) trait Source: Sync {
    type Item: Deref<Target = Claim> + Send + Sync;

    /// In the log.
    fn what(&self) -> String;
    fn name(&self, item: &Self::Item) -> String;

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Self::Item>>>;

    /// Waits for half a second until there may be something.
    fn wait(&self, db: &Connection) -> Result<()>;

    /// Has a handler do it; returns the calls that settle it.
    fn handle(&self, item: &Self::Item) -> Vec<Call>;
}

impl Worker {
    /// Works until it is stopped or, if it is to drain, until nothing can be
    /// claimed now; returns how many were begun.
    pub(crate) fn work(
        &self,
        source: &impl Source,
        drain: bool,
    ) -> Result<u64> {
        let begun = AtomicU64::new(0);
        let signals = [SIGTERM, SIGINT].map(|s| register(s, self.stop.clone()));
        let result = self.open_all().and_then(|opened| {
            let Some((all, file)) = opened else {
                return Ok(()); // it was stopped
            };
            let (owner, n) = (&self.owner, self.concurrency.max(1));
            let line = format!("owner {owner}, concurrency {n}");
            (self.log)(&format!("{}: {line}", source.what()));
            let held = Held::new(Vec::new());
            Turn {
                worker: self,
                source,
                held: &held,
                file: &file,
                drain,
                begun: &begun,
            }
            .threads(all)
        });
        for id in signals.into_iter().flatten() {
            unregister(id);
        }
        let (begun, what) = (begun.into_inner(), source.what());
        (self.log)(&format!("{what}: ended, jobs begun: {begun}"));
        result.map(|_| begun)
    }

    /// Opens a connection for each thread, and one for the thread that renews.
    fn open_all(&self) -> Result<Option<(Vec<Connection>, File)>> {
        let mut file = File::new(&self.path);
        let mut all = Vec::new();
        for _ in 0..=self.concurrency.max(1) {
            let open = || self.open();
            match self.patiently(&file, "opening", Duration::ZERO, open)? {
                Some(db) => all.push(db),
                None => return Ok(None),
            }
        }
        file.remember();
        Ok(Some((all, file)))
    }
}

/// What the threads share.
struct Turn<'a, S: Source> {
    worker: &'a Worker,
    source: &'a S,
    held: &'a Held<S::Item>,
    file: &'a File,
    drain: bool,
    begun: &'a AtomicU64,
}

impl<S: Source> Turn<'_, S> {
    fn threads(&self, mut all: Vec<Connection>) -> Result<()> {
        let (worker, held) = (self.worker, self.held);
        let (end, ended) = channel();
        thread::scope(|scope| {
            let last = all.pop();
            scope.spawn(move || last.map(|db| worker.beat(db, held, ended)));
            let mut threads = Vec::new();
            for db in all {
                threads.push(scope.spawn(move || {
                    let result = self.repeat(db);
                    if result.is_err() {
                        worker.stop.store(true, SeqCst); // the others, too
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

    fn repeat(&self, mut db: Connection) -> Result<()> {
        let (worker, source) = (self.worker, self.source);
        let (held, file) = (self.held, self.file);
        while !worker.stop.load(SeqCst) {
            file.check()?;
            if let Some(item) = held.begin() {
                self.begun.fetch_add(1, SeqCst);
                let calls = source.handle(&item);
                let what = format!("settling {}", source.name(&item));
                let settle = || self.settle(&mut db, &item, &calls);
                // What cannot be settled is given back at the end.
                worker.patiently(file, &what, worker.lease, settle)?;
                continue;
            }
            let looking = held.looking.lock();
            let idle = held.is_empty(); // so nobody can put more
            let claim = || source.claim(&db);
            let what = "looking for jobs";
            let found = worker.patiently(file, what, Duration::ZERO, claim)?;
            let found = found.unwrap_or_default();
            let none = found.is_empty();
            held.add(found);
            drop(looking);
            if self.drain && idle && none {
                break;
            } else if self.drain && none {
                thread::sleep(BEAT);
            } else if none {
                let wait = || source.wait(&db);
                worker.patiently(file, "waiting", Duration::ZERO, wait)?;
            }
        }
        Ok(())
    }

    /// Settles one, and takes the next ones with the same commit, when it is
    /// its turn among claimq's writers: so it need not sleep in SQLite.
    fn settle(
        &self,
        db: &mut Connection,
        item: &S::Item,
        calls: &[Call],
    ) -> Result<()> {
        gate(db, true);
        let settled = self.settle_now(db, item, calls);
        gate(db, false);
        settled
    }

    /// Unless some wait to be begun: one commit for each.
    fn settle_now(
        &self,
        db: &mut Connection,
        item: &S::Item,
        calls: &[Call],
    ) -> Result<()> {
        let (worker, tx) = (self.worker, transaction(db)?);
        item.settle(&tx, calls, worker.log)?;
        let idle = !self.held.waiting() && !worker.stop.load(SeqCst);
        let next = if idle {
            self.source.claim(&tx)?
        } else {
            vec![]
        };
        tx.commit()?;
        self.held.add(next);
        self.held.remove(item);
        Ok(())
    }
}
