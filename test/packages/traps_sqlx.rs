//! sqlx: what its users do first, and the traps of ext/rust/README.md.
//!
//!     traps_sqlx DATABASE
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions,
};
use sqlx::{Executor, Row, SqlitePool};
use std::time::Duration;

async fn count(pool: &SqlitePool, sql: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar(sql).fetch_one(pool).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> sqlx::Result<()> {
    claimq::auto_load();
    let options = SqliteConnectOptions::new()
        .filename(std::env::args().nth(1).unwrap())
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(30));
    let pool = SqlitePoolOptions::new().connect_with(options).await?;
    pool.execute("SELECT claimq_init(); CREATE TABLE orders(id)")
        .await?;

    // An order and its job, in one transaction.
    for id in 1..=2 {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("SELECT claimq_submit('l', ?)")
            .bind(id)
            .fetch_all(&mut *tx)
            .await?;
        sqlx::query("INSERT INTO orders VALUES (?)")
            .bind(id)
            .execute(&mut *tx)
            .await?;
        if id == 2 {
            tx.commit().await?;
        }
    }
    let orders = count(&pool, "SELECT count(*) FROM orders").await?;
    let jobs = count(&pool, "SELECT count(*) FROM claimq_job").await?;
    println!("begin_with: {orders} {jobs}");

    // All rows of the claim, then the work.
    let rows =
        sqlx::query("SELECT claim_id, lease_token FROM claimq_lane('l', 'w')")
            .fetch_all(&pool)
            .await?;
    for row in rows {
        let complete = "SELECT claimq_complete(?, ?)";
        let n: i64 = sqlx::query_scalar(complete)
            .bind(row.get::<String, _>(0))
            .bind(row.get::<String, _>(1))
            .fetch_one(&pool)
            .await?;
        println!("complete: {n}");
        let error = sqlx::query(complete)
            .bind(row.get::<String, _>(0))
            .bind("another token")
            .fetch_all(&pool)
            .await
            .err()
            .unwrap();
        println!("code: {}", claimq::Code::of(&error).unwrap());
    }

    // describe(), which query!() uses at compile time, runs a statement whose
    // columns have no declared type: a verb, but not a claim.
    let ready = "SELECT count(*) FROM claimq_job WHERE state='ready'";
    let submit = "SELECT claimq_submit('l', 'x')";
    pool.describe(submit).await?;
    println!("describe submit: {}", count(&pool, ready).await?);
    let once = "SELECT claimq_submit('l', 'x', 'request', 'r1')";
    pool.describe(once).await?;
    sqlx::query(once).fetch_all(&pool).await?;
    println!("describe request: {}", count(&pool, ready).await?);
    sqlx::query(submit).fetch_all(&pool).await?;
    pool.describe("SELECT claim_id FROM claimq_lane('l', 'w')")
        .await?;
    let held = "SELECT count(*) FROM claimq_job WHERE state='active'";
    println!("describe claim: {}", count(&pool, held).await?);
    Ok(())
}
