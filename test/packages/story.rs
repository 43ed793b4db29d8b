//! The story of tcl/test/story.tcl, with the Rust crate.
//!
//!     story calls DATABASE
//!     story worker DATABASE LANE LEASE_MS BATCH
use claimq::{Code, Failure, Outcome};
use rusqlite::{types::Value, Connection, Result};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::Duration;
use std::{env, fs, path::Path, thread};

fn calls(path: &str) -> Result<()> {
    let mut db = claimq::open(path)?;
    let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0));
    println!("version {}", text("SELECT claimq_version()")?);
    println!("journal {}", text("PRAGMA journal_mode")?);

    // A stale worker is refused, and recognised.
    let one = |sql: &str| db.query_row(sql, [], |_| Ok(()));
    one("SELECT claimq_submit('stale', 'x', 'now_ms', 1000)")?;
    let claim = |owner: &str, now: i64| {
        db.query_row(
            "SELECT claim_id, lease_token FROM claimq_lane('stale', ?, 1000)
              WHERE now_ms=?",
            (owner, now),
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )
    };
    let mine = claim("a", 1000)?;
    claim("b", 2000)?;
    let error = db
        .query_row("SELECT claimq_complete(?, ?)", mine, |_| Ok(()))
        .unwrap_err();
    println!("stale {}", Code::of(&error).unwrap());
    if Code::of(&one("SELECT nonsense()").unwrap_err()).is_none() {
        println!("other none");
    }

    // An order and its job, in one transaction.
    db.execute("CREATE TABLE orders(id)", [])?;
    for (id, payload) in [(1, "x"), (2, "y")] {
        let tx = claimq::transaction(&mut db)?;
        let submit = "SELECT claimq_submit('orders', ?)";
        tx.query_row(submit, [payload], |_| Ok(()))?;
        tx.execute("INSERT INTO orders VALUES (?)", [id])?;
        if id == 2 {
            tx.commit()?;
        }
    }
    Ok(())
}

fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(10));
    }
}

fn handle(
    db: &Mutex<Option<Connection>>,
    path: &str,
    job: &claimq::Job,
) -> Outcome<Did> {
    let words: Vec<&str> = job.text().split(' ').collect();
    let (word, name) = (words[0], *words.get(1).unwrap_or(&""));
    let number = words[words.len() - 1].parse().unwrap_or(0);
    let file = |suffix: &str| format!("{name}.{suffix}");
    match word {
        "odd" => odd(job.attempt)?,
        "never" => {
            return Err(Failure::Retry {
                reason: "never".into(),
                delay: Some(Duration::MAX),
            })
        }
        "count" => {
            let mut db = db.lock().unwrap();
            let db = db.get_or_insert_with(|| claimq::open(path).unwrap());
            db.execute("INSERT INTO done VALUES (?)", [job.id])?;
        }
        "fail" if job.attempt == 0 => {
            return Err(std::io::Error::other("no luck").into());
        }
        "later" if job.attempt == 0 => {
            let delay = Some(Duration::from_millis(1));
            return Err(Failure::Retry {
                reason: "later".into(),
                delay,
            });
        }
        "reject" => return Err(Failure::Reject("poison".into())),
        "hold" => {
            fs::write(file("begun"), "")?;
            wait_until(|| Path::new(&file("go")).exists());
        }
        "lost" => {
            fs::write(file("begun"), "")?;
            wait_until(|| job.lost());
            fs::write(file("lost"), "")?;
        }
        "steps" => steps(job, path, name)?,
        "agent" => return Ok(Did(agent(job, name, number)?.to_string())),
        "fan" => return Ok(Did(fan(job, path, name, number)?.to_string())),
        "part" => return Ok(Did(name.to_string())),
        "ask" => return Ok(Did(ask(job, path, number)?)),
        _ => {}
    }
    Ok(Did(format!("did {}", job.text())))
}

fn note(name: &str, word: &str) -> std::io::Result<()> {
    let name = format!("{name}.log");
    let file = OpenOptions::new().append(true).create(true).open(name);
    file?.write_all(format!("{word}\n").as_bytes()) // at once
}

fn steps(job: &claimq::Job, path: &str, name: &str) -> Outcome<()> {
    let first: HashMap<String, i64> = job.step_json("one", || {
        note(name, "one")?;
        Ok(HashMap::from([("n".to_string(), 1)]))
    })?;
    if job.attempt == 0 {
        let delay = Some(Duration::from_millis(1));
        let reason = "again".to_string();
        return Err(Failure::Retry { reason, delay });
    }
    job.sleep(Duration::from_millis(1))?;
    let child = job.step("child", || {
        note(name, "child")?;
        let id = claimq::submit(&claimq::open(path)?, &job.lane, "count", &[])?;
        Ok(id.unwrap_or(0))
    })?;
    let Value::Integer(child) = child else {
        return Err(Failure::Reject(format!("{child:?} is no id")));
    };
    job.wait_for(&[child])?;
    job.step("two", || {
        note(name, "two")?;
        Ok(first["n"] + 1)
    })?;
    Ok(())
}

static FUNCTIONS: AtomicU64 = AtomicU64::new(0);

fn agent(job: &claimq::Job, name: &str, n: i64) -> Outcome<i64> {
    let most = env::var("STORY_FUNCTIONS").map(|n| n.parse().unwrap());
    let most = most.unwrap_or(u64::MAX);
    let mut total = 0;
    for i in 0..n {
        let step = format!("s{i}");
        total += job.step_json::<i64>(&step, || {
            if FUNCTIONS.fetch_add(1, SeqCst) >= most {
                wait_until(|| false); // until it is killed
            }
            note(name, &step)?;
            Ok(i)
        })?;
    }
    Ok(total)
}

fn fan(job: &claimq::Job, path: &str, lane: &str, n: i64) -> Outcome<i64> {
    let children: Vec<i64> = job.step_json("children", || {
        let db = claimq::open(path)?;
        let part = |i| format!("part {i}");
        let ids = (1..=n).map(|i| claimq::submit(&db, lane, &part(i), &[]));
        Ok(ids.map(|id| id.unwrap().unwrap()).collect())
    })?;
    job.wait_for(&children)?;
    let sql = "SELECT sum(result) FROM claimq_job WHERE lane=?";
    Ok(claimq::open(path)?.query_row(sql, [lane], |row| row.get(0))?)
}

fn ask(job: &claimq::Job, path: &str, id: i64) -> Outcome<String> {
    job.wait_for(&[id])?;
    let sql = "SELECT result FROM claimq_job WHERE job_id=?";
    Ok(claimq::open(path)?.query_row(sql, [id], |row| row.get(0))?)
}

/// What becomes of a job; SQLite has nothing for "what".
struct Did(String);

impl From<Did> for Value {
    fn from(did: Did) -> Value {
        if did.0 == "did what" {
            panic!("no value");
        }
        Value::Text(did.0)
    }
}

fn odd(attempt: i64) -> Outcome<()> {
    let retry = |reason: &str, delay| {
        let reason = reason.to_string();
        Err(Failure::Retry { reason, delay })
    };
    match attempt {
        0 => retry("none", Some(Duration::ZERO)),
        1 => retry("half", Some(Duration::from_micros(500))),
        2 => std::panic::panic_any(42),
        _ => Ok(()),
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if args[0] == "calls" {
        return calls(&args[1]);
    }
    let db = Mutex::default();
    let mut worker = claimq::Worker::new(&args[1], &args[2]);
    worker.lease = Duration::from_millis(args[3].parse().unwrap());
    worker.batch = args[4].parse().unwrap();
    if let Ok(concurrency) = env::var("STORY_CONCURRENCY") {
        worker.concurrency = concurrency.parse().unwrap();
    }
    if let Ok(timeout) = env::var("STORY_TIMEOUT_MS") {
        worker.timeout = Duration::from_millis(timeout.parse().unwrap());
    }
    let begun = worker.run(|job| handle(&db, &args[1], job))?;
    println!("begun {begun}");
    Ok(())
}
