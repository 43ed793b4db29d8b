//! The Worker of claimq and that of apalis with its SQLite backend.
//!
//!     worker QUEUE DIR JOBS CONCURRENCY MS VERSION
//!
//! A program has one of them, because each brings a SQLite of its own: the
//! feature use_claimq or use_apalis says which, and QUEUE is not looked at.
//! VERSION is that of the library, and is printed.  The rest is that of
//! worker_python.py, where it is explained.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Handler {
    jobs: usize,
    sleep: Duration,
    seen: Mutex<Vec<String>>,
    start: Mutex<Option<(Instant, f64)>>,
    end: Mutex<Option<(Instant, f64)>>,
}

fn now() -> Option<(Instant, f64)> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Some((
        Instant::now(),
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
    ))
}

impl Handler {
    fn begin(&self) {
        let mut start = self.start.lock().unwrap();
        if start.is_none() {
            *start = now();
        }
    }

    /// Says whether it was the last.
    fn end(&self, payload: String) -> bool {
        let mut seen = self.seen.lock().unwrap();
        seen.push(payload);
        let last = seen.len() == self.jobs;
        if last {
            *self.end.lock().unwrap() = now();
        }
        last
    }
}

#[cfg(feature = "use_claimq")]
fn work(file: &str, payloads: &[String], n: usize, handler: Arc<Handler>) {
    let mut db = claimq::open(file).unwrap();
    let all = claimq::transaction(&mut db).unwrap();
    for payload in payloads {
        claimq::submit(&all, "q", payload.as_str(), &[]).unwrap();
    }
    all.commit().unwrap();
    let mut worker = claimq::Worker::new(file, "q");
    worker.concurrency = n;
    worker.log = |_| ();
    let begun = worker.drain(|job| {
        handler.begin();
        if !handler.sleep.is_zero() {
            std::thread::sleep(handler.sleep);
        }
        handler.end(job.text().to_string());
        Ok(rusqlite::types::Null)
    });
    begun.unwrap();
}

#[cfg(feature = "use_apalis")]
#[tokio::main]
async fn work(file: &str, payloads: &[String], n: usize, all: Arc<Handler>) {
    use apalis::{layers::WorkerBuilderExt, prelude::*};
    use apalis_sqlite::{
        Config, SqliteConnectOptions, SqlitePool, SqliteStorage,
    };
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .pragma("journal_mode", "WAL")
        .pragma("synchronous", "NORMAL")
        .busy_timeout(Duration::from_secs(30));
    let pool = SqlitePool::connect_with(options).await.unwrap();
    SqliteStorage::setup(&pool).await.unwrap();
    let config = Config::default().queue("q").batch_size(n.max(10));
    let mut storage = SqliteStorage::new(&pool).with_config(config);
    let tasks = payloads
        .iter()
        .cloned()
        .map(|each| TaskBuilder::new(each).build());
    storage
        .push_all(&mut futures::stream::iter(tasks))
        .await
        .unwrap();
    async fn handle(
        payload: String,
        handler: Data<Arc<Handler>>,
        worker: WorkerContext,
    ) -> Result<(), BoxDynError> {
        handler.begin();
        if !handler.sleep.is_zero() {
            tokio::time::sleep(handler.sleep).await;
        }
        if handler.end(payload) {
            worker.stop()?;
        }
        Ok(())
    }
    let worker = WorkerBuilder::new("worker")
        .backend(storage)
        .data(all)
        .concurrency(n)
        .build(handle);
    worker.run().await.unwrap();
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let jobs = args[3].parse().unwrap();
    let payloads: Vec<_> = (0..jobs).map(|i| format!("job {i:046}")).collect();
    let sleep = Duration::from_millis(args[5].parse().unwrap());
    let handler = Arc::new(Handler {
        jobs,
        sleep,
        ..Handler::default()
    });
    let file = format!("{}/queue.db", args[2]);
    work(&file, &payloads, args[4].parse().unwrap(), handler.clone());
    let mut seen = handler.seen.lock().unwrap().clone();
    seen.sort();
    assert!(seen == payloads, "seen: {}", seen.len());
    let (start, from) = handler.start.lock().unwrap().unwrap();
    let (end, to) = handler.end.lock().unwrap().unwrap();
    println!(
        "{{\"version\":\"{}\",\"seconds\":{},\"cpu\":{}}}",
        args[6],
        (end - start).as_secs_f64(),
        to - from
    );
}
