//! What a Worker can do, one thing at a time.
//!
//!     grown NAME DATABASE
//!
//! Prints what happens.
use claimq::{list, submit, Failure, Job, Json, Outcome, Worker};
use claimq::{Contest, Outbox, Session};
use rusqlite::types::{Null, Value};
use rusqlite::{Connection, Params, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};
use std::{env, fs, path::Path, thread};

static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn log(line: &str) {
    LOG.lock().unwrap().push(line.to_string());
}

/// The first column of a query, a line for each row.
fn text(db: &Connection, sql: &str, values: impl Params) -> String {
    let mut statement = db.prepare(sql).unwrap();
    let rows = statement.query_map(values, |row| row.get::<_, Value>(0));
    let lines = rows.unwrap().map(|value| match value.unwrap() {
        Value::Text(text) => text,
        Value::Integer(number) => number.to_string(),
        other => format!("{other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Waits for what another thread does, five minutes at most.
fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed().as_secs() < 300, "never true: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn worker(path: &str, lanes: &[&str]) -> Worker {
    let mut worker = Worker::new(path, "");
    worker.lanes = lanes.iter().map(|lane| lane.to_string()).collect();
    worker.owner = "me".to_string();
    worker.log = log;
    worker
}

fn nothing(_: &Job) -> Outcome<Null> {
    Ok(Null)
}

#[derive(Serialize, Deserialize)]
struct Order {
    id: i64,
}

fn submitting(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "plain", &[])?;
    submit(db, "l", [0u8, 255], &[])?;
    submit(db, "l", Json(Order { id: 7 }), &[])?;
    let sql = "SELECT job_id || ' ' || iif(typeof(payload)='text',
        'text: ' || payload, 'blob: x''' || lower(hex(payload)) || '''')
        FROM claimq_job";
    println!("{}", text(db, sql, []));
    let error = submit(db, "l", "x", &[("max_atempts", &3)]).unwrap_err();
    println!("unknown option: {}", claimq::Code::of(&error).unwrap());
    let able = list(["g\"pu"]);
    let headers = Json(HashMap::from([("user", 7)]));
    let again = || {
        submit(
            &claimq::open(path)?,
            "l",
            "x",
            &[
                ("max_attempts", &3),
                ("capabilities", &able),
                ("task", &"t"),
                ("source_key", &"k"),
                ("headers", &headers),
                ("group_key", &Null),
            ],
        )
    };
    println!("same key: {:?} {:?}", again()?, again()?);
    let tx = claimq::transaction(db)?;
    submit(&tx, "l", "undone", &[("task", &Null)])?;
    drop(tx); // rolled back
    let sql = "SELECT 'a' || max_attempts || ' ' || capabilities || ' ' ||
        headers || ' ' || source_key || ' ' || (SELECT count(*) FROM claimq_job)
        FROM claimq_job WHERE job_id=4";
    println!("{}", text(db, sql, []));
    Ok(())
}

fn job(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "a", Json(Order { id: 7 }), &[])?;
    let headers = r#"{"locale":"de"}"#;
    submit(
        db,
        "b",
        Json(Order { id: 8 }),
        &[("task", &"mail.welcome"), ("headers", &headers)],
    )?;
    submit(db, "b", "bad", &[("max_attempts", &1), ("priority", &-1)])?;
    let say = |job: &Job| -> Outcome<Null> {
        let order: Order = job.json()?;
        let (lane, task, id) = (&job.lane, &job.task, order.id);
        println!("{lane} {task:?} {id} {:?}", job.headers.get("locale"));
        Ok(Null)
    };
    let mut worker = worker(path, &["a", "b"]);
    worker.task("mail.welcome", say);
    println!("begun: {}", worker.drain(say)?);
    let sql = "SELECT error_class FROM claimq_letter";
    println!("bad: {}", text(db, sql, []));
    Ok(())
}

fn tasks(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "", &[("task", &"two"), ("priority", &1)])?;
    submit(db, "l", "", &[("task", &"unknown"), ("priority", &3)])?;
    submit(db, "l", "", &[("task", &"one"), ("priority", &2)])?;
    let mut worker = worker(path, &["l"]);
    for name in ["one", "two"] {
        worker.task(name, |job| {
            println!("{}", job.task.as_deref().unwrap_or(""));
            Ok(Null)
        });
    }
    println!("begun: {}", worker.drain_tasks()?);
    let state = "SELECT state FROM claimq_job WHERE job_id=2";
    let why = "SELECT reason FROM claimq_why('lane', 'l')";
    println!("waits: {} {}", text(db, state, []), text(db, why, []));
    let id = submit(db, "l", "plain", &[])?;
    worker.drain_tasks()?;
    let sql = "SELECT state || ' ' || attempt_index || ' ' || last_error
        FROM claimq_job WHERE job_id=?";
    println!("{}", text(db, sql, [id]));
    let said = LOG.lock().unwrap().join("\n");
    println!(
        "logged: {}",
        said.contains("no handler for jobs without a task")
    );
    Ok(())
}

fn lanes(path: &str, db: &mut Connection) -> Result<()> {
    for lane in ["mail", "urgent", "mail", "urgent"] {
        submit(db, lane, "", &[("partition", &7)])?;
    }
    let mut worker = worker(path, &["urgent", "mail", "other"]);
    let say = |job: &Job| {
        println!("{} {}", job.lane, job.id);
        Ok(Null)
    };
    worker.partitions = Some(vec![0, 3]);
    println!("begun: {}", worker.drain(say)?);
    worker.partitions = None; // all
    println!("begun: {}", worker.drain(say)?);
    for lane in ["urgent", "other"] {
        submit(db, lane, "", &[])?;
    }
    worker.batch = 2;
    let state = "SELECT count(*) FROM claimq_job WHERE state='active'";
    let held = |_: &Job| {
        println!("held: {}", text(&claimq::open(path)?, state, []));
        Ok(Null)
    };
    println!("begun: {}", worker.drain(held)?);
    Ok(())
}

fn release(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "shutdown", &[])?;
    submit(db, "l", "night", &[])?;
    let first = AtomicBool::new(true);
    let begun = worker(path, &["l"]).drain(|job| {
        let delay = match job.text() {
            "night" => Some(Duration::from_secs(3600)),
            _ if first.swap(false, SeqCst) => None,
            _ => return Ok(Null),
        };
        let after = Vec::new();
        Err(Failure::Release { delay, after })
    })?;
    let sql = "SELECT payload || ' ' || state || ' ' || attempt_index
        FROM claimq_job";
    println!("begun: {begun}\n{}", text(db, sql, []));
    Ok(())
}

fn create(_: &str, _: &mut Connection) -> Result<()> {
    let mut worker = worker("nowhere.db", &["l"]);
    println!("{}", worker.drain(nothing).unwrap_err());
    println!("made: {}", Path::new("nowhere.db").exists());
    worker.create = true;
    println!("begun: {}", worker.drain(nothing)?);
    println!("made: {}", Path::new("nowhere.db").exists());
    fs::remove_file("nowhere.db").unwrap();
    Ok(())
}

/// A trigger notes how the connections of a worker are set.
fn synchronous(path: &str, db: &mut Connection) -> Result<()> {
    db.execute_batch(
        "CREATE TABLE seen(synchronous);
        CREATE TRIGGER look AFTER UPDATE ON claimq_job BEGIN
          INSERT INTO seen SELECT synchronous FROM pragma_synchronous;
        END",
    )?;
    for full in [false, true] {
        submit(db, "l", "", &[])?;
        let mut worker = worker(path, &["l"]);
        worker.synchronous_full = full;
        worker.drain(nothing)?;
        let sql = "SELECT DISTINCT synchronous FROM seen";
        println!("{full}: {}", text(db, sql, []));
        db.execute("DELETE FROM seen", [])?;
    }
    println!("open: {}", text(db, "PRAGMA synchronous", []));
    Ok(())
}

fn drain(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "", &[])?;
    submit(db, "l", "", &[("delay_ms", &3600000)])?;
    submit(db, "l", "again", &[])?;
    let worker = worker(path, &["l"]);
    let again = |job: &Job| {
        if job.text() == "again" && job.attempt == 0 {
            let (reason, delay) = ("again".into(), Some(Duration::ZERO));
            return Err(Failure::Retry { reason, delay });
        }
        Ok(Null)
    };
    println!("begun: {}", worker.drain(again)?);
    let sql = "SELECT job_id || ' ' || state FROM claimq_job";
    println!("{}\nbegun: {}", text(db, sql, []), worker.drain(again)?);
    Ok(())
}

fn logging(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "mail", "", &[("max_attempts", &1)])?;
    let place = format!("\n  at {}:{}:", file!(), line!() + 2);
    worker(path, &["mail", "push"]).drain(|_| -> Outcome<Null> {
        Err(std::io::Error::other("no luck"))?
    })?;
    let said = LOG.lock().unwrap().join("\n");
    println!("{}", said.replace(&place, " at column "));
    let sql = "SELECT error_class || ' ' || reason FROM claimq_letter";
    println!("{}", text(db, sql, []).replace(&place, " at column "));
    Ok(())
}

fn concurrency(path: &str, db: &mut Connection) -> Result<()> {
    for _ in 0..7 {
        submit(db, "l", "", &[])?;
    }
    let mut worker = worker(path, &["l"]);
    worker.concurrency = 3;
    let (together, first) = (Barrier::new(3), AtomicI64::new(3));
    let begun = worker.drain(|_| {
        if first.fetch_sub(1, SeqCst) > 0 {
            together.wait(); // the first three wait for each other
        }
        Ok(Null)
    })?;
    let sql = "SELECT state || ' ' || count(*) FROM claimq_job GROUP BY state";
    println!("begun: {begun}\n{}", text(db, sql, []));
    Ok(())
}

/// A worker of two that holds five jobs is stopped.
fn stop(path: &str, db: &mut Connection) -> Result<()> {
    for _ in 0..5 {
        submit(db, "l", "", &[])?;
    }
    let mut worker = worker(path, &["l"]);
    (worker.concurrency, worker.batch) = (2, 5);
    let (together, stop) = (Barrier::new(2), worker.stop.clone());
    let begun = worker.run(|job| {
        together.wait();
        stop.store(true, SeqCst);
        let db = claimq::open(path)?;
        let sql = "SELECT count(*) FROM claimq_job WHERE state='ready'";
        until("three are given back", || text(&db, sql, []) == "3");
        Ok(job.stopping())
    })?;
    let sql = "SELECT state || ' ' || count(*) FROM claimq_job GROUP BY state";
    println!("begun: {begun}\n{}", text(db, sql, []));
    Ok(())
}

/// Two at work and one that is taken ahead live longer than their lease.
fn renew(path: &str, db: &mut Connection) -> Result<()> {
    for _ in 0..3 {
        submit(db, "l", "", &[])?;
    }
    let mut worker = worker(path, &["l"]);
    (worker.concurrency, worker.batch) = (2, 3);
    worker.lease = Duration::from_secs(3);
    let (first, together) = (AtomicI64::new(2), Barrier::new(2));
    let begun = worker.drain(|_| {
        if first.fetch_sub(1, SeqCst) > 0 {
            together.wait();
            let db = claimq::open(path)?;
            let sql = "SELECT count(*) FROM claimq_job
                WHERE expires_at_ms > created_at_ms + 6000";
            until("all are renewed", || text(&db, sql, []) == "3");
            together.wait();
        }
        Ok(Null)
    })?;
    let sql = "SELECT sum(reclaim_count) FROM claimq_job";
    println!("begun: {begun}\nreclaims: {}", text(db, sql, []));
    Ok(())
}

/// A lease of ten minutes, and a job that is cancelled from outside.
fn cancel(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "endless", &[])?;
    submit(db, "l", "next", &[])?;
    let mut worker = worker(path, &["l"]);
    worker.lease = Duration::from_secs(600);
    let begun = worker.drain(|job| {
        if job.text() == "endless" {
            let db = claimq::open(path)?;
            let sql = "SELECT claimq_cancel(?, 'force', 1)";
            println!("{}", text(&db, sql, [job.id]));
            until("it is lost", || job.lost());
            println!("lost");
        }
        Ok(Null)
    })?;
    let sql = "SELECT state FROM claimq_job WHERE job_id=2";
    println!("begun: {begun}\n{}", text(db, sql, []));
    Ok(())
}

/// A handler that has completed its job itself has not lost it.
fn own(path: &str, db: &mut Connection) -> Result<()> {
    submit(db, "l", "", &[])?;
    let mut worker = worker(path, &["l"]);
    worker.lease = Duration::from_millis(30);
    let begun = worker.drain(|job| {
        let mut db = claimq::open(path)?;
        let tx = claimq::transaction(&mut db)?;
        job.complete(&tx)?;
        tx.commit()?;
        thread::sleep(Duration::from_millis(300));
        println!("lost: {}", job.lost());
        Ok(Null)
    })?;
    let sql = "SELECT state FROM claimq_job";
    println!("begun: {begun}\n{}", text(db, sql, []));
    Ok(())
}

/// Five messages: the first delivery fails after the second of its messages, and
/// the rest comes again.
fn outbox(path: &str, db: &mut Connection) -> Result<()> {
    text(
        db,
        "SELECT claimq_queue('q', 2, 'degrade', 0, 'backoff_ms', 0)",
        [],
    );
    for i in 0..5 {
        let sql = "SELECT claimq_publish('q', 'm' || ?1, 'partition', 1,
            'headers', json_object('n', ?1))";
        text(db, sql, [i]);
    }
    let mut outbox = Outbox::new(path, "q");
    outbox.max = Some(3);
    outbox.options.log = log;
    let failed = AtomicBool::new(false);
    let begun = outbox.drain(|batch| {
        for (i, message) in batch.entries.iter().enumerate() {
            println!("{} {:?}", message.text(), message.headers.get("n"));
            if i == 2 && !failed.swap(true, SeqCst) {
                return Err(std::io::Error::other("no luck").into());
            }
            batch.done(message);
        }
        Ok(())
    })?;
    println!("begun: {begun}");
    text(db, "SELECT claimq_publish('q', 'bad')", []);
    outbox.drain(|_| Err(Failure::Reject("poison".into())))?;
    let sql = "SELECT reason || ' ' || payload FROM claimq_letter";
    println!("{}", text(db, sql, []));
    let said = LOG.lock().unwrap().join("\n");
    println!(
        "logged: {}",
        said.contains("q failed: std::io::error::Error")
    );

    // Two partitions, whose handlers wait for each other.
    for partition in [0, 1] {
        let sql = "SELECT claimq_publish('q', 'x', 'partition', ?)";
        text(db, sql, [partition]);
    }
    let together = Barrier::new(2);
    outbox.options.concurrency = 2;
    let begun = outbox.drain(|_| {
        together.wait();
        Ok(())
    })?;
    println!("at once: {begun}");
    Ok(())
}

/// Two conversations, one of which fails once; an endless turn is taken away.
fn session(path: &str, db: &mut Connection) -> Result<()> {
    for word in ["a:hi", "b:hey", "a:you"] {
        let sql = "SELECT claimq_enqueue(?, ?, 'slot_policy', 'join')";
        text(db, sql, [&word[..1], word]);
    }
    let command =
        "SELECT claimq_enqueue('b', 'stop', 'work_class', 'session_command')";
    text(db, command, []);
    let mut session = Session::new(path);
    session.options.log = log;
    let failed = AtomicBool::new(false);
    let begun = session.drain(|turn| {
        let words: Vec<_> = turn.entries.iter().map(|e| e.text()).collect();
        println!("{} {words:?}", turn.scope);
        if !failed.swap(true, SeqCst) {
            let (reason, delay) = ("again".into(), Some(Duration::ZERO));
            return Err(Failure::Retry { reason, delay });
        }
        Ok(())
    })?;
    let left = text(db, "SELECT count(*) FROM claimq_batch", []);
    println!("begun: {begun}\nleft: {left}");

    text(db, "SELECT claimq_enqueue('c', 'endless')", []);
    session.session = Some("c".to_string());
    session.options.lease = Duration::from_secs(600);
    let first = AtomicBool::new(true);
    session.drain(|turn| {
        if first.swap(false, SeqCst) {
            let db = claimq::open(path)?;
            text(&db, "SELECT claimq_revoke(?)", [&turn.claim_id]);
            until("it is lost", || turn.lost());
            println!("lost");
        }
        Ok(())
    })?;

    // Two sessions, whose handlers wait for each other.
    for name in ["d", "e"] {
        text(db, "SELECT claimq_enqueue(?, 'x')", [name]);
    }
    let together = Barrier::new(2);
    session.session = None;
    session.options.concurrency = 2;
    let begun = session.drain(|_| {
        together.wait();
        Ok(())
    })?;
    println!("at once: {begun}");
    Ok(())
}

fn contest(path: &str, db: &mut Connection) -> Result<()> {
    let contest = || {
        let mut contest = Contest::new(path, "leader");
        contest.options.lease = Duration::from_secs(600);
        contest
    };
    let first = contest().acquire()?.expect("it is free");
    println!("others: {}", contest().try_acquire()?.is_some());
    let token = first.fencing_token;
    let second = thread::scope(|scope| {
        let second = scope.spawn(|| contest().acquire());
        drop(first);
        second.join().unwrap()
    })?;
    let second = second.expect("it is free again");
    println!("greater token: {}", second.fencing_token > token);
    text(db, "SELECT claimq_revoke(?)", [&second.claim_id]);
    until("it is lost", || second.lost());
    println!("lost");
    drop(second);
    let mut short = contest();
    short.options.lease = Duration::from_secs(3);
    let hold = short.try_acquire()?.expect("it is free once more");
    let sql = "SELECT count(*) FROM claimq_leases WHERE expires_at_ms > ?";
    let expires = &hold.row["expires_at_ms"];
    until("it is renewed", || text(db, sql, [expires]) == "1");
    drop(hold);
    let sql = "SELECT count(*) FROM claimq_leases";
    println!("held: {}", text(db, sql, []));
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().collect();
    let mut db = claimq::open(&args[2])?;
    let test = match args[1].as_str() {
        "submit" => submitting,
        "job" => job,
        "tasks" => tasks,
        "lanes" => lanes,
        "release" => release,
        "create" => create,
        "synchronous" => synchronous,
        "drain" => drain,
        "log" => logging,
        "concurrency" => concurrency,
        "stop" => stop,
        "renew" => renew,
        "cancel" => cancel,
        "outbox" => outbox,
        "session" => session,
        "contest" => contest,
        _ => own,
    };
    test(&args[2], &mut db)
}
