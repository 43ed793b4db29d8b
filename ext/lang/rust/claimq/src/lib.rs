//! Queues of leased, fenced work in ordinary SQLite tables.
//!
//! ```no_run
//! # fn main() -> rusqlite::Result<()> {
//! let mut db = claimq::open("app.db")?;
//! let tx = claimq::transaction(&mut db)?;    // the order and its job: both
//! tx.execute("INSERT INTO orders VALUES (?)", [42])?;
//! claimq::submit(&tx, "mail", "order 42", &[])?;
//! tx.commit()?;
//!
//! claimq::Worker::new("app.db", "mail").run(|job| {
//!     println!("{}", job.text());
//!     Ok(rusqlite::types::Null)
//! })?;
//! # Ok(()) }
//! ```
//!
//! The extension is compiled into the program.  [`auto_load`] gives it to every
//! connection that is opened afterwards, by rusqlite, sqlx or diesel; [`open`]
//! does that, too, and has the settings that suit claimq.  Everything else is
//! SQL: the manual is ext/doc/manual.md of the source archive.

#[cfg(feature = "worker")]
mod claim;
mod code;
#[cfg(feature = "worker")]
mod contest;
#[cfg(feature = "worker")]
mod db;
#[cfg(feature = "worker")]
mod heart;
#[cfg(feature = "worker")]
mod job;
#[cfg(feature = "worker")]
mod jobs;
#[cfg(feature = "json")]
mod json;
#[cfg(feature = "worker")]
mod many;
#[cfg(feature = "worker")]
mod patience;
#[cfg(feature = "worker")]
mod steps;
#[cfg(feature = "worker")]
mod submit;
#[cfg(feature = "worker")]
mod turn;
#[cfg(feature = "worker")]
mod worker;

pub use code::Code;
#[cfg(feature = "json")]
pub use json::Json;
#[cfg(feature = "worker")]
pub use {
    claim::Claim,
    contest::{Contest, Hold},
    db::{open, transaction},
    job::{Failure, Job, Outcome},
    many::{Delivery, Entry, Outbox, Session},
    submit::{list, submit},
    worker::Worker,
};

extern "C" {
    fn sqlite3_claimq_init();
}

/// Has every connection that is opened from now on know claimq, whoever opens
/// it.  May be called more than once.
pub fn auto_load() {
    // The entry point has the arguments that SQLite passes to it; its type
    // differs between versions of libsqlite3-sys.
    unsafe {
        libsqlite3_sys::sqlite3_auto_extension(Some(std::mem::transmute(
            sqlite3_claimq_init as *const (),
        )));
    }
}
