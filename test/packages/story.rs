//! The story of tcl/story.tcl, told with the Rust crate.
//!
//!     story calls DATABASE
//!     story worker DATABASE LANE LEASE_MS BATCH
use claimq::{Code, Failure};
use rusqlite::{Connection, Result};
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

fn handle(db: &Connection, job: &claimq::Job) -> Result<String, Failure> {
    let (word, name) = job.text().split_once(' ').unwrap_or((job.text(), ""));
    let file = |suffix: &str| format!("{name}.{suffix}");
    match word {
        "count" => {
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
        _ => {}
    }
    Ok(format!("did {}", job.text()))
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    if args[0] == "calls" {
        return calls(&args[1]);
    }
    let db = claimq::open(&args[1])?;
    let mut worker = claimq::Worker::new(&args[1], &args[2]);
    worker.lease = Duration::from_millis(args[3].parse().unwrap());
    worker.batch = args[4].parse().unwrap();
    let begun = worker.run(|job| handle(&db, job))?;
    println!("begun {begun}");
    Ok(())
}
