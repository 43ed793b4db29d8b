use crate::claim::{Call, Claim};
use crate::steps::Steps;
use crate::Worker;
use rusqlite::types::Value;
use rusqlite::{Connection, Result, Row};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::panic::{
    catch_unwind, set_hook, take_hook, AssertUnwindSafe, Location,
};
use std::sync::{Arc, Once};
use std::time::Duration;

/// What a handler returns when it has not done the job.  Every error becomes an
/// `Error` by itself, so that `?` can be used.
#[derive(Debug)]
pub enum Failure {
    /// Try again, after `delay` if it is given, else after the job's backoff.
    Retry {
        reason: String,
        delay: Option<Duration>,
    },
    /// Never try again: the job becomes a dead letter.
    Reject(String),
    /// Give the job back without using an attempt.  It comes back at once, or
    /// after `delay`, and when the jobs `after` have ended.
    Release {
        delay: Option<Duration>,
        after: Vec<i64>,
    },
    /// An error of some type: try again, after the job's backoff.
    Error { class: &'static str, reason: String },
}

impl<E: std::error::Error> From<E> for Failure {
    /// The reason says where the error was turned into a failure, by `?`.
    #[track_caller]
    fn from(error: E) -> Failure {
        Failure::Error {
            class: std::any::type_name::<E>(),
            reason: format!("{error}{}", at(Location::caller())),
        }
    }
}

/// A place, for the reason of a failure; "" if it is in Rust's own library.
fn at(place: &Location) -> String {
    if place.file().starts_with("/rustc/") {
        return String::new();
    }
    format!("\n  at {place}")
}

/// What a handler returns: `Ok` completes the job, with the value as its result.
pub type Outcome<R> = std::result::Result<R, Failure>;

/// What a handler gets.
#[derive(Debug)]
pub struct Job {
    pub id: i64,
    pub lane: String,
    /// The name of its task, if it has one.
    pub task: Option<String>,
    pub payload: Value,
    /// Empty if there are none; what is nested in one is JSON.
    pub headers: HashMap<String, Value>,
    /// 0 is the first.
    pub attempt: i64,
    pub(crate) steps: Steps,
    claim: Claim,
}

impl Deref for Job {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

impl Job {
    pub(crate) fn new(row: &Row, worker: &Worker) -> Result<Job> {
        Ok(Job {
            id: row.get("job_id")?,
            lane: row.get("lane")?,
            task: None,
            payload: row.get("payload")?,
            headers: HashMap::new(),
            attempt: row.get("attempt_index")?,
            steps: Steps::new(worker),
            claim: Claim::new(row, worker)?,
        })
    }

    /// Reads the JSON of its columns, which SQLite parses.
    pub(crate) fn read(mut self, db: &Connection) -> Result<Arc<Job>> {
        self.headers = headers(db, self.row.get("headers"))?;
        if let Some(Value::Text(text)) = self.row.get("capabilities") {
            if text != "[]" {
                let sql = "SELECT max(substr(value, 6)) FROM json_each(?)
                    WHERE value GLOB 'task:*'";
                self.task = db
                    .prepare_cached(sql)?
                    .query_row([text], |row| row.get(0))?;
            }
        }
        Ok(Arc::new(self))
    }

    /// The payload as text; "" if it is none.
    pub fn text(&self) -> &str {
        match &self.payload {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// Calls the handler; returns the calls that settle the job.  A panic is a
    /// failure like any other.
    pub(crate) fn handle<R: Into<Value>>(
        &self,
        handler: impl FnOnce(&Job) -> Outcome<R>,
        log: fn(&str),
    ) -> Vec<Call> {
        let failure = match safely(|| handler(self)) {
            Ok(Ok(result)) => return self.completed(result, log),
            Ok(Err(failure)) => failure,
            Err(text) => Failure::Error {
                class: "panic",
                reason: format!("the handler panicked{text}"),
            },
        };
        let (reason, delay, class) = match failure {
            Failure::Reject(reason) => {
                return vec![
                    ("reject(?, ?, ?)", vec![reason.into()]),
                    ("reject(?, ?, 'rejected')", vec![]),
                ]
            }
            Failure::Release { delay, after } => {
                let after = match after.as_slice() {
                    [] => Value::Null,
                    ids => format!("{ids:?}").into(),
                };
                let verb = "release(?, ?, 'delay_ms', ?, 'after', ?)";
                return vec![
                    (verb, vec![milliseconds(delay), after]),
                    ("retry(?, ?, 'it cannot be given back')", vec![]),
                ];
            }
            Failure::Retry { reason, delay } => (reason, delay, Value::Null),
            Failure::Error { class, reason } => {
                log(&format!("job {} failed: {class}: {reason}", self.id));
                (reason, None, end_of(class).to_string().into())
            }
        };
        let verb = "retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)";
        vec![
            (verb, vec![reason.into(), milliseconds(delay), class]),
            ("retry(?, ?, 'the handler failed')", vec![]),
        ]
    }

    fn completed<R: Into<Value>>(&self, result: R, log: fn(&str)) -> Vec<Call> {
        let mut calls = vec![("complete(?, ?)", vec![])];
        match safely(|| result.into()) {
            Ok(value) => {
                calls.insert(0, ("complete(?, ?, 'result', ?)", vec![value]))
            }
            Err(text) => log(&format!(
                "job {} is done, but its result cannot be stored{text}",
                self.id
            )),
        }
        calls
    }
}

thread_local! {
    /// Where this thread has panicked.
    static PANICKED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Has panics leave their place behind; what others do about them stays.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            let place = panic.location().map(at).unwrap_or_default();
            let _ = PANICKED.try_with(|last| last.replace(place));
            before(panic);
        }));
    });
}

/// Does something that may panic.  An error is the text of the panic, if it has
/// one, and its place; what else a panic carries is forgotten, because it may
/// panic again.
pub(crate) fn safely<T>(
    f: impl FnOnce() -> T,
) -> std::result::Result<T, String> {
    note_panics();
    // What the handler leaves behind when it panics is its own.
    catch_unwind(AssertUnwindSafe(f)).map_err(|why| {
        let text = why.downcast_ref::<String>().map(String::as_str);
        let text = text.or(why.downcast_ref::<&str>().copied());
        let text = text.map_or(String::new(), |text| format!(": {text}"));
        std::mem::forget(why);
        text + &PANICKED.take()
    })
}

/// The names and values of a JSON object, which SQLite parses.
pub(crate) fn headers(
    db: &Connection,
    json: Option<&Value>,
) -> Result<HashMap<String, Value>> {
    let Some(json @ Value::Text(_)) = json else {
        return Ok(HashMap::new());
    };
    db.prepare_cached("SELECT key, value FROM json_each(?)")?
        .query_map([json], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Rounded up; NULL if there is no time.
pub(crate) fn milliseconds(delay: Option<Duration>) -> Value {
    delay.map_or(Value::Null, |delay| {
        let up = delay.saturating_add(Duration::from_nanos(999_999));
        Value::from(i64::try_from(up.as_millis()).unwrap_or(i64::MAX))
    })
}

/// What claimq takes of the name of a class.
fn end_of(class: &str) -> &str {
    let from = (class.len().saturating_sub(64)..)
        .find(|at| class.is_char_boundary(*at));
    &class[from.unwrap_or(0)..]
}
