//! The traps of ext/lang/rust/README.md, and the way around each of them.
//!
//!     traps NAME DATABASE
//!
//! Prints what happens, a line for the natural way and a line for the recipe.
use rusqlite::{Connection, Result};
use std::env;

const CLAIM: &str = "SELECT claim_id, lease_token
                       FROM claimq_lane('l', 'w', 30000, 3)";
const DONE: &str = "SELECT claimq_complete(?, ?)";
const SUBMIT: &str = "SELECT claimq_submit('l', 'x')";

fn count(db: &Connection, state: &str) -> Result<i64> {
    db.query_row(
        "SELECT count(*) FROM claimq_job WHERE state=?",
        [state],
        |row| row.get(0),
    )
}

fn fresh(path: &str, jobs: i32) -> Result<Connection> {
    let db = claimq::open(path)?;
    db.execute("CREATE TABLE orders(id)", [])?;
    for _ in 0..jobs {
        db.query_row(SUBMIT, [], |_| Ok(()))?;
    }
    Ok(db)
}

/// Completing inside the loop over the rows of the claim.
fn rows(path: &str) -> Result<()> {
    let db = fresh(path, 6)?;
    let other = claimq::open(path)?;
    let done = |claim: (String, String)| {
        other.execute("INSERT INTO orders VALUES (1)", [])?;
        db.query_row(DONE, claim, |row| row.get::<_, i64>(0))
    };
    let mut statement = db.prepare(CLAIM)?;
    let mut open = statement.query([])?;
    while let Some(row) = open.next()? {
        if let Err(error) = done((row.get(0)?, row.get(1)?)) {
            println!("loop: {error}");
            break;
        }
    }
    drop(open);
    let all: Result<Vec<(String, String)>> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect();
    let mut n = 0;
    for claim in all? {
        n += done(claim)?;
    }
    println!("collect: {n}");
    Ok(())
}

/// execute() of a SELECT does it, and returns an error.
fn execute(path: &str) -> Result<()> {
    let db = fresh(path, 0)?;
    println!("execute: {:?}", db.execute(SUBMIT, []).unwrap_err());
    println!("jobs: {}", count(&db, "ready")?);
    println!("claim: {:?}", db.execute(CLAIM, []).unwrap_err());
    println!("held: {}", count(&db, "active")?);
    Ok(())
}

/// A handler that panics has failed; the worker goes on.
fn panic(path: &str) -> Result<()> {
    let db = fresh(path, 0)?;
    for payload in ["panic", "end"] {
        let submit = "SELECT claimq_submit('l', ?, 'max_attempts', 1)";
        db.query_row(submit, [payload], |_| Ok(()))?;
    }
    std::panic::set_hook(Box::new(|_| ()));
    let mut worker = claimq::Worker::new(path, "l");
    worker.log = |_| ();
    let place = format!("\n  at {}:{}:", file!(), line!() + 3);
    let begun = worker.run(|job| {
        if job.text() == "panic" {
            panic!("on purpose");
        }
        worker.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        Ok(rusqlite::types::Null)
    })?;
    let sql =
        "SELECT state || ' ' || last_error FROM claimq_job WHERE job_id=1";
    let job: String = db.query_row(sql, [], |row| row.get(0))?;
    println!("begun: {begun}\n{}", job.replace(&place, " at column "));
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = env::args().collect();
    match args[1].as_str() {
        "rows" => rows(&args[2]),
        "execute" => execute(&args[2]),
        _ => panic(&args[2]),
    }
}
