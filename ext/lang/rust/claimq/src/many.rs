//! Outboxes and sessions, whose claims are of several rows.
use crate::claim::{columns, Call, Claim};
use crate::job::{headers, milliseconds, safely, Failure, Outcome};
use crate::turn::Source;
use crate::Worker;
use rusqlite::types::Value;
use rusqlite::{params_from_iter, Connection, Result};
use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

/// The loop of a relay, which hands on the messages of a queue, each partition
/// in order.  What the handler returns decides: `Ok` is done; a rejection makes
/// dead letters; after any other failure the messages come again, without those
/// that were called [`Delivery::done`].
pub struct Outbox {
    pub queue: String,
    /// How many messages are taken at a time; `None`: as the queue says.
    pub max: Option<i64>,
    /// `None`: the one that waits longest.
    pub partition: Option<i64>,
    /// Owner, lease, concurrency, timeout, create, log and stop, as those of a
    /// worker.
    pub options: Worker,
}

/// The loop of a worker of sessions, or of one of them: conversations, each of
/// which is worked on by one handler at a time, in order.
pub struct Session {
    /// `None`: any.
    pub session: Option<String>,
    /// How many entries are taken at a time.
    pub max: i64,
    /// Owner, lease, concurrency, timeout, create, log and stop, as those of a
    /// worker.
    pub options: Worker,
}

/// What a handler gets: messages of a partition, or batches of a session.
#[derive(Debug)]
pub struct Delivery {
    /// The queue or the session.
    pub scope: String,
    pub entries: Vec<Entry>,
    claim: Claim,
}

/// A message or a batch.
#[derive(Debug)]
pub struct Entry {
    pub payload: Value,
    /// Empty if there are none; what is nested in one is JSON.
    pub headers: HashMap<String, Value>,
    /// All columns of the claim, such as `seq` and `partition`, or `work_class`.
    pub row: HashMap<String, Value>,
    done: AtomicBool,
}

impl Entry {
    /// The payload as text; "" if it is none.
    pub fn text(&self) -> &str {
        match &self.payload {
            Value::Text(text) => text,
            _ => "",
        }
    }
}

impl Deref for Delivery {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

impl Delivery {
    /// A message of an outbox is done, whatever becomes of the others.  It
    /// counts if all before it are done, too.
    pub fn done(&self, message: &Entry) {
        message.done.store(true, SeqCst);
    }

    /// The calls that settle it.  A panic is a failure like any other.
    fn handle(
        &self,
        handler: impl FnOnce(&Delivery) -> Outcome<()>,
        outbox: bool,
        log: fn(&str),
    ) -> Vec<Call> {
        let failure = match safely(|| handler(self)) {
            Ok(Ok(())) => return vec![("complete(?, ?)", vec![])],
            Ok(Err(failure)) => failure,
            Err(text) => Failure::Error {
                class: "panic",
                reason: format!("the handler panicked{text}"),
            },
        };
        let done = |entry: &&Entry| entry.done.load(SeqCst);
        let done = self.entries.iter().take_while(done).count() as i64;
        let option = |with, without| if outbox { with } else { without };
        let (verb, last, mut values) = match failure {
            Failure::Reject(reason) => (
                option("reject(?, ?, ?, 'processed', ?)", "reject(?, ?, ?)"),
                "reject(?, ?, 'rejected')",
                vec![reason.into()],
            ),
            Failure::Release { .. } if outbox && done > 0 => {
                ("complete(?, ?, 'processed', ?)", "release(?, ?)", vec![])
            }
            Failure::Release { delay, .. } => {
                let verb = "release(?, ?, 'delay_ms', ?)";
                let delay = vec![milliseconds(delay)];
                return vec![(verb, delay), ("release(?, ?)", vec![])];
            }
            Failure::Retry { reason, delay } => (
                option(
                    "retry(?, ?, ?, 'delay_ms', ?, 'processed', ?)",
                    "retry(?, ?, ?, 'delay_ms', ?)",
                ),
                "retry(?, ?, 'the handler failed')",
                vec![reason.into(), milliseconds(delay)],
            ),
            Failure::Error { class, reason } => {
                let scope = &self.scope;
                log(&format!("{scope} failed: {class}: {reason}"));
                (
                    option("retry(?, ?, ?, 'processed', ?)", "retry(?, ?, ?)"),
                    "retry(?, ?, 'the handler failed')",
                    vec![format!("{class}: {reason}").into()],
                )
            }
        };
        if outbox {
            values.push(done.into());
        }
        vec![(verb, values), (last, vec![])]
    }
}

/// What both loops have in common.
struct Many<'a, H> {
    options: &'a Worker,
    handler: H,
    what: String,
    outbox: bool,
    claim: &'a str,
    claim_values: [Value; 5],
    wait: &'a str,
    wait_values: [Value; 2],
}

impl<H: Fn(&Delivery) -> Outcome<()> + Sync> Source for Many<'_, H> {
    type Item = Delivery;

    fn what(&self) -> String {
        self.what.clone()
    }

    fn name(&self, delivery: &Delivery) -> String {
        delivery.claim_id.clone()
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Delivery>>> {
        let mut found: Option<Delivery> = None;
        let mut statement = db.prepare_cached(self.claim)?;
        let mut rows = statement.query(params_from_iter(&self.claim_values))?;
        while let Some(row) = rows.next()? {
            let entry = Entry {
                payload: row.get("payload")?,
                headers: HashMap::new(),
                row: columns(row)?,
                done: AtomicBool::default(),
            };
            match &mut found {
                Some(delivery) => delivery.entries.push(entry),
                None => {
                    let column = if self.outbox { "queue" } else { "session" };
                    found = Some(Delivery {
                        scope: row.get(column)?,
                        entries: vec![entry],
                        claim: Claim::new(row, self.options)?,
                    });
                }
            }
        }
        drop(rows);
        for entry in found.iter_mut().flat_map(|d| d.entries.iter_mut()) {
            entry.headers = headers(db, entry.row.get("headers"))?;
        }
        Ok(found.into_iter().map(Arc::new).collect())
    }

    fn wait(&self, db: &Connection) -> Result<()> {
        let values = params_from_iter(&self.wait_values);
        db.query_row(self.wait, values, |_| Ok(()))
    }

    fn handle(&self, delivery: &Delivery) -> Vec<Call> {
        delivery.handle(&self.handler, self.outbox, self.options.log)
    }
}

/// The loops of both.
macro_rules! run_and_drain {
    ($type:ident) => {
        impl $type {
            /// Works until it is stopped; returns how many deliveries were
            /// begun.
            pub fn run(
                &self,
                handler: impl Fn(&Delivery) -> Outcome<()> + Sync,
            ) -> Result<u64> {
                self.options.work(&self.source(handler), false)
            }

            /// Works until nothing can be claimed now: for tests.
            pub fn drain(
                &self,
                handler: impl Fn(&Delivery) -> Outcome<()> + Sync,
            ) -> Result<u64> {
                self.options.work(&self.source(handler), true)
            }
        }
    };
}

run_and_drain!(Outbox);
run_and_drain!(Session);

impl Outbox {
    pub fn new(path: impl AsRef<Path>, queue: &str) -> Outbox {
        Outbox {
            queue: queue.to_string(),
            max: None,
            partition: None,
            options: Worker::new(path, ""),
        }
    }

    fn source<H>(&self, handler: H) -> Many<'_, H> {
        let (options, queue) = (&self.options, &self.queue);
        let lease = options.lease.as_millis() as i64;
        let partition = Value::from(self.partition);
        Many {
            options,
            handler,
            what: format!("outbox of {queue}"),
            outbox: true,
            claim: "SELECT * FROM claimq_outbox WHERE queue=? AND owner=?
                AND lease_ms=? AND max IS ? AND partition IS ?",
            claim_values: [
                queue.clone().into(),
                options.owner.clone().into(),
                lease.into(),
                self.max.into(),
                partition.clone(),
            ],
            wait: "SELECT claimq_wait(500, 'outbox', ?, 'partition', ?)",
            wait_values: [queue.clone().into(), partition],
        }
    }
}

impl Session {
    /// Of any session.
    pub fn new(path: impl AsRef<Path>) -> Session {
        Session {
            session: None,
            max: 32,
            options: Worker::new(path, ""),
        }
    }

    fn source<H>(&self, handler: H) -> Many<'_, H> {
        let (options, session) = (&self.options, &self.session);
        let lease = options.lease.as_millis() as i64;
        Many {
            options,
            handler,
            what: "worker of sessions".to_string(),
            outbox: false,
            claim: "SELECT * FROM claimq WHERE session IS ? AND owner=?
                AND lease_ms=? AND max=? AND take='any' AND serial=?",
            claim_values: [
                session.clone().into(),
                options.owner.clone().into(),
                lease.into(),
                self.max.into(),
                1.into(),
            ],
            wait: "SELECT claimq_wait(500, 'session', ?, 'take', 'any',
                'serial', ?)",
            wait_values: [session.clone().into(), 1.into()],
        }
    }
}
