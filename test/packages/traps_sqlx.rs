//! sqlx: what its users do first, and the traps of ext/lang/rust/README.md.
//!
//!     traps_sqlx DATABASE
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions,
};
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr, SqlitePool};
use std::time::Duration;
use tokio::time::timeout;

async fn count(pool: &SqlitePool, sql: &'static str) -> sqlx::Result<i64> {
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
    pool.describe(submit.into_sql_str()).await?;
    println!("describe submit: {}", count(&pool, ready).await?);
    let once = "SELECT claimq_submit('l', 'x', 'request', 'r1')";
    pool.describe(once.into_sql_str()).await?;
    sqlx::query(once).fetch_all(&pool).await?;
    println!("describe request: {}", count(&pool, ready).await?);
    sqlx::query(submit).fetch_all(&pool).await?;
    let claim = "SELECT claim_id FROM claimq_lane('l', 'w')";
    pool.describe(claim.into_sql_str()).await?;
    let held = "SELECT count(*) FROM claimq_job WHERE state='active'";
    println!("describe claim: {}", count(&pool, held).await?);

    // A future that is dropped while its claim waits for the lock: the claim is
    // made all the same.  Repeated with its request, it answers what it got.
    let clear = "SELECT claimq_cancel(job_id, 'force', 1) FROM claimq_job";
    for request in ["", " WHERE request='r2'"] {
        sqlx::query(clear).fetch_all(&pool).await?;
        sqlx::query(submit).fetch_all(&pool).await?;
        let sql =
            format!("SELECT claim_id FROM claimq_lane('l', 'w'){request}");
        let claim = || sqlx::query(AssertSqlSafe(sql.clone()));
        let mut other = pool.acquire().await?;
        let mut lock = pool.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::query("INSERT INTO orders VALUES (3)")
            .execute(&mut *lock)
            .await?;
        let dropped = claim().fetch_all(&mut *other);
        assert!(timeout(Duration::ZERO, dropped).await.is_err());
        lock.commit().await?;
        sqlx::query("SELECT 1").fetch_all(&mut *other).await?;
        let known = claim().fetch_all(&mut *other).await?.len();
        println!("dropped: {known} of {}", count(&pool, held).await?);
    }
    Ok(())
}
