//! diesel: what its users do first, and the traps of ext/lang/rust/README.md.
//!
//!     traps_diesel DATABASE
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = BigInt)]
    n: i64,
}

#[derive(QueryableByName)]
struct Claim {
    #[diesel(sql_type = Text)]
    claim_id: String,
    #[diesel(sql_type = Text)]
    lease_token: String,
}

fn number(db: &mut SqliteConnection, sql: &str) -> QueryResult<i64> {
    Ok(sql_query(sql).get_result::<Number>(db)?.n)
}

fn main() -> QueryResult<()> {
    claimq::auto_load();
    let path = std::env::args().nth(1).unwrap();
    let mut db = SqliteConnection::establish(&path).unwrap();
    let db = &mut db;
    db.batch_execute(
        "PRAGMA busy_timeout=30000; PRAGMA journal_mode=wal;
         SELECT claimq_init(); CREATE TABLE orders(id)",
    )?;

    // An order and its job, in one transaction.
    for id in 1..=2i64 {
        let done = db.immediate_transaction(|db| {
            sql_query("SELECT claimq_submit('l', ?) AS n")
                .bind::<BigInt, _>(id)
                .get_result::<Number>(db)?;
            sql_query("INSERT INTO orders VALUES (?)")
                .bind::<BigInt, _>(id)
                .execute(db)?;
            match id {
                1 => Err(diesel::result::Error::RollbackTransaction),
                _ => Ok(()),
            }
        });
        assert_eq!(done.is_ok(), id == 2);
    }
    let orders = number(db, "SELECT count(*) AS n FROM orders")?;
    let jobs = number(db, "SELECT count(*) AS n FROM claimq_job")?;
    println!("immediate_transaction: {orders} {jobs}");

    // All rows of the claim, then the work.
    let claims = sql_query("SELECT * FROM claimq_lane('l', 'w', 30000, 10)")
        .load::<Claim>(db)?;
    for claim in claims {
        let complete = sql_query("SELECT claimq_complete(?, ?) AS n")
            .bind::<Text, _>(claim.claim_id.clone());
        let n = complete
            .clone()
            .bind::<Text, _>(claim.lease_token)
            .get_result::<Number>(db)?
            .n;
        println!("complete: {n}");
        let error = complete
            .bind::<Text, _>("another token")
            .get_result::<Number>(db)
            .err()
            .unwrap();
        println!("code: {}", claimq::Code::of(&error).unwrap());
    }

    // There is no call that loads an extension, and SQL may not.
    let error = number(db, "SELECT load_extension('claimq') AS n");
    println!("load_extension: {}", error.err().unwrap());
    Ok(())
}
