use crate::Code;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, ToSql, Transaction, TransactionBehavior};
use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{process, thread};

const WAIT_MS: i64 = 5000;
const BEAT: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(30);

/// Opens a database for claimq: WAL, a busy timeout of 30 s, and claimq's
/// tables, which are created when they are missing.
pub fn open(path: impl AsRef<Path>) -> Result<Connection> {
    crate::auto_load();
    let db = Connection::open(path)?;
    db.busy_timeout(TIMEOUT)?;
    // SQLite does not wait for the lock that a change of the journal mode
    // needs, and several processes may open a new database at once.
    let until = Instant::now() + TIMEOUT;
    while let Err(error) = call(&db, "PRAGMA journal_mode=wal", &[]) {
        let busy = error.sqlite_error_code()
            == Some(rusqlite::ErrorCode::DatabaseBusy);
        if !busy || Instant::now() > until {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(10));
    }
    call(&db, "SELECT claimq_init()", &[])?;
    Ok(db)
}

/// BEGIN IMMEDIATE: a transaction that holds the write lock from the beginning.
pub fn transaction(db: &mut Connection) -> Result<Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}

/// Runs a SELECT of one row, and forgets what it answers.
fn call(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<()> {
    db.prepare_cached(sql)?.query_row(values, |_| Ok(()))
}

/// What a handler returns when it has not done the job.  Every error becomes a
/// `Retry` by itself, so that `?` can be used.
pub enum Failure {
    /// Try again, after `delay` if it is given, else after the job's backoff.
    Retry {
        reason: String,
        delay: Option<Duration>,
    },
    /// Never try again: the job becomes a dead letter.
    Reject(String),
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Retry {
            reason: error.to_string(),
            delay: None,
        }
    }
}

/// What a handler gets.
pub struct Job {
    pub id: i64,
    pub payload: Value,
    /// 0 is the first.
    pub attempt: i64,
    pub claim_id: String,
    pub lease_token: String,
    /// All columns of the claim.
    pub row: HashMap<String, Value>,
    lost: AtomicBool,
    stopping: Arc<AtomicBool>,
}

impl Job {
    /// True when somebody else has taken the job over: the handler should stop,
    /// nothing that it still does counts.
    pub fn lost(&self) -> bool {
        self.lost.load(SeqCst)
    }

    /// True when the worker is to end, and waits for this handler.
    pub fn stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    /// The payload as text; "" if it is none.
    pub fn text(&self) -> &str {
        match &self.payload {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// Completes the job on a connection of the handler's own, inside a
    /// transaction with the handler's writes: both happen, or neither.
    pub fn complete(&self, db: &Connection) -> Result<()> {
        self.call(db, "SELECT claimq_complete(?, ?)", &[])
    }

    fn call(
        &self,
        db: &Connection,
        sql: &str,
        values: &[&dyn ToSql],
    ) -> Result<()> {
        let mut all: Vec<&dyn ToSql> = vec![&self.claim_id, &self.lease_token];
        all.extend(values);
        call(db, sql, &all)
    }

    /// The same; a lost claim is remembered, and is no error.
    fn verb(
        &self,
        db: &Connection,
        sql: &str,
        values: &[&dyn ToSql],
    ) -> Result<()> {
        match self.call(db, sql, values) {
            Err(error) if Code::of(&error) == Some(Code::ClaimLost) => {
                self.lost.store(true, SeqCst);
                Ok(())
            }
            result => result,
        }
    }
}

#[derive(Default)]
struct Held {
    waiting: VecDeque<Arc<Job>>, // not begun
    current: Option<Arc<Job>>,
}

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
/// SIGTERM and SIGINT, or the flag of [`Worker::stop`], end the loop: what is
/// held and not begun is given back at once, and the job at hand is finished.
pub struct Worker {
    path: PathBuf,
    lane: String,
    owner: String,
    lease: Duration,
    batch: i64,
    capabilities: String,
    partition: i64,
    stopping: Arc<AtomicBool>,
    idle: AtomicBool, // in wait(), which may be broken off
    held: Mutex<Held>,
}

impl Worker {
    pub fn new(path: impl AsRef<Path>, lane: &str) -> Worker {
        let now =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let owner = format!(
            "{}:{:x}",
            process::id(),
            now.unwrap_or_default().as_nanos()
        );
        Worker {
            path: path.as_ref().to_path_buf(),
            lane: lane.to_string(),
            owner,
            lease: Duration::from_secs(30),
            batch: 1,
            capabilities: "[]".to_string(),
            partition: 0,
            stopping: Arc::default(),
            idle: AtomicBool::default(),
            held: Mutex::default(),
        }
    }

    /// The name under which jobs are held; by default one of its own.
    pub fn owner(mut self, owner: &str) -> Worker {
        self.owner = owner.to_string();
        self
    }

    pub fn lease(mut self, lease: Duration) -> Worker {
        self.lease = lease;
        self
    }

    /// How many jobs are taken at a time; they are worked on one by one.
    pub fn batch(mut self, batch: i64) -> Worker {
        self.batch = batch;
        self
    }

    /// What this worker can do, as a JSON array of strings.
    pub fn capabilities(mut self, json: &str) -> Worker {
        self.capabilities = json.to_string();
        self
    }

    pub fn partition(mut self, partition: i64) -> Worker {
        self.partition = partition;
        self
    }

    /// A flag that ends `run` when it is set to true.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stopping.clone()
    }

    /// Works until it is stopped; returns how many jobs were begun.
    pub fn run<R: Into<Value>>(
        self,
        mut handler: impl FnMut(&Job) -> std::result::Result<R, Failure>,
    ) -> Result<u64> {
        let mut signals = Vec::new();
        for signal in
            [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT]
        {
            signals.extend(signal_hook::flag::register(
                signal,
                self.stopping.clone(),
            ));
        }
        let mut db = open(&self.path)?;
        let second = open(&self.path)?;
        let interrupt = db.get_interrupt_handle();
        let end = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let (worker, end) = (&self, &end);
            scope.spawn(move || {
                worker.renew(&second, end, || interrupt.interrupt())
            });
            let result = self.work(&mut db, &mut handler);
            end.store(true, SeqCst);
            result
        });
        let current = self.held.lock().unwrap().current.take(); // not settled
        self.take(current);
        self.give_back(&db);
        signals.into_iter().for_each(|id| {
            signal_hook::low_level::unregister(id);
        });
        result
    }

    fn work<R: Into<Value>>(
        &self,
        db: &mut Connection,
        handler: &mut impl FnMut(&Job) -> std::result::Result<R, Failure>,
    ) -> Result<u64> {
        let mut begun = 0;
        while !self.stopping.load(SeqCst) {
            if let Some(job) = self.begin() {
                begun += 1;
                let outcome = handler(&job);
                self.settle(db, &job, outcome)?;
            } else if !self.take(self.claim(db)?) {
                self.wait(db)?;
            }
        }
        Ok(begun)
    }

    fn wait(&self, db: &Connection) -> Result<()> {
        self.idle.store(true, SeqCst);
        let result = call(
            db,
            "SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,
                                'partition', ?)",
            &[&WAIT_MS, &self.lane, &self.capabilities, &self.partition],
        );
        self.idle.store(false, SeqCst);
        match result {
            Err(_) if self.stopping.load(SeqCst) => Ok(()), // broken off
            result => result,
        }
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let mut statement = db.prepare_cached(
            "SELECT * FROM claimq_lane WHERE lane=? AND owner=? AND ttl_ms=?
               AND max_jobs=? AND capabilities=? AND partition=?",
        )?;
        let names: Vec<String> = statement
            .column_names()
            .into_iter()
            .map(|s| s.to_string())
            .collect();
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
            let mut map = HashMap::new();
            for (i, name) in names.iter().enumerate() {
                map.insert(name.clone(), row.get::<_, Value>(i)?);
            }
            Ok(Arc::new(Job {
                id: row.get("job_id")?,
                payload: row.get("payload")?,
                attempt: row.get("attempt_index")?,
                claim_id: row.get("claim_id")?,
                lease_token: row.get("lease_token")?,
                row: map,
                lost: AtomicBool::new(false),
                stopping: self.stopping.clone(),
            }))
        })?;
        rows.collect()
    }

    /// These are held from now on, and nothing is at hand.  True if there are
    /// any.
    fn take(&self, jobs: impl IntoIterator<Item = Arc<Job>>) -> bool {
        let mut held = self.held.lock().unwrap();
        held.current = None;
        held.waiting.extend(jobs);
        !held.waiting.is_empty()
    }

    /// The next job, which is at hand then.
    fn begin(&self) -> Option<Arc<Job>> {
        let mut held = self.held.lock().unwrap();
        while let Some(job) = held.waiting.pop_front() {
            if !job.lost() {
                held.current = Some(job.clone());
                return Some(job);
            }
        }
        None
    }

    /// Settles the job, and takes the next one with the same commit.
    fn settle<R: Into<Value>>(
        &self,
        db: &mut Connection,
        job: &Job,
        outcome: std::result::Result<R, Failure>,
    ) -> Result<()> {
        let last = self.held.lock().unwrap().waiting.is_empty();
        let tx = transaction(db)?;
        if !job.lost() {
            match outcome {
                Ok(result) => {
                    let sql = "SELECT claimq_complete(?, ?, 'result', ?)";
                    job.verb(&tx, sql, &[&result.into()])?
                }
                Err(Failure::Reject(reason)) => {
                    job.verb(&tx, "SELECT claimq_reject(?, ?, ?)", &[&reason])?
                }
                Err(Failure::Retry { reason, delay }) => {
                    let sql = "SELECT claimq_retry(?, ?, ?, 'delay_ms', ?)";
                    let delay = delay.map(|delay| delay.as_millis() as i64);
                    job.verb(&tx, sql, &[&reason, &delay])?
                }
            }
        }
        let jobs = if last && !self.stopping.load(SeqCst) {
            self.claim(&tx)?
        } else {
            vec![]
        };
        tx.commit()?;
        self.take(jobs);
        Ok(())
    }

    /// The thread: renews what is held, until the end; when the worker is
    /// stopping, breaks off its wait and gives back what is not begun.  What
    /// fails here for another reason than a lost claim is tried again at the
    /// next beat, or the lease ends.
    fn renew(&self, db: &Connection, end: &AtomicBool, break_off: impl Fn()) {
        let mut next = Instant::now() + self.lease / 3;
        while !end.load(SeqCst) {
            thread::sleep(BEAT.min(self.lease / 3));
            if self.stopping.load(SeqCst) {
                self.give_back(db);
                if self.idle.load(SeqCst) {
                    break_off();
                }
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + self.lease / 3;
            let held: Vec<Arc<Job>> = {
                let held = self.held.lock().unwrap();
                held.current
                    .iter()
                    .chain(held.waiting.iter())
                    .cloned()
                    .collect()
            };
            for job in held {
                let lease = self.lease.as_millis() as i64;
                let _ = job.verb(db, "SELECT claimq_renew(?, ?, ?)", &[&lease]);
            }
        }
    }

    fn give_back(&self, db: &Connection) {
        let jobs = std::mem::take(&mut self.held.lock().unwrap().waiting);
        for job in jobs {
            let _ = job.verb(db, "SELECT claimq_release(?, ?)", &[]);
        }
    }
}
