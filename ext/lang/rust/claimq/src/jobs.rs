//! What a worker claims: jobs of lanes.
use crate::claim::Call;
use crate::db::call;
use crate::job::{Job, Outcome};
use crate::submit::list;
use crate::turn::Source;
use crate::Worker;
use rusqlite::{types::Value, Connection, Result};
use std::sync::Arc;

const CLAIM: &str = "SELECT * FROM claimq_lane(?, ?, ?, ?)
    WHERE capabilities=? AND partition IS ?";
const WAIT: &str = "SELECT claimq_wait(500, 'lanes', ?, 'capabilities', ?,
    'partition', ?)";

/// The jobs of a worker, and the handler of those without a task.
pub(crate) struct Jobs<'a, H> {
    pub(crate) worker: &'a Worker,
    pub(crate) handler: H,
}

impl<H> Jobs<'_, H> {
    /// Capabilities and partitions, for claims and waits.
    fn scope(&self) -> (String, Option<String>) {
        let worker = self.worker;
        let tasks = worker.tasks.keys().map(|name| format!("task:{name}"));
        let able = list(worker.capabilities.iter().cloned().chain(tasks));
        (
            able,
            worker.partitions.as_ref().map(|all| format!("{all:?}")),
        )
    }
}

impl<H, R: Into<Value>> Source for Jobs<'_, H>
where
    H: Fn(&Job) -> Outcome<R> + Sync,
{
    type Item = Job;

    fn what(&self) -> String {
        format!("worker of {}", self.worker.lanes.join(", "))
    }

    fn name(&self, job: &Job) -> String {
        format!("job {}", job.id)
    }

    fn claim(&self, db: &Connection) -> Result<Vec<Arc<Job>>> {
        let worker = self.worker;
        let (owner, lease) = (&worker.owner, worker.lease.as_millis() as i64);
        let (able, partitions) = self.scope();
        let mut all: Vec<Arc<Job>> = Vec::new();
        for lane in &worker.lanes {
            let left = worker.batch.max(1) - all.len() as i64;
            if left <= 0 {
                break;
            }
            let values = (lane, owner, lease, left, &able, &partitions);
            let jobs: Result<Vec<Job>> = db
                .prepare_cached(CLAIM)?
                .query_map(values, |row| Job::new(row, worker))?
                .collect();
            if jobs.is_err() && !all.is_empty() {
                break; // it will come again
            }
            for job in jobs? {
                all.push(job.read(db)?);
            }
        }
        Ok(all)
    }

    fn wait(&self, db: &Connection) -> Result<()> {
        let (able, partitions) = self.scope();
        call(db, WAIT, &[&list(&self.worker.lanes), &able, &partitions])
    }

    fn handle(&self, job: &Job) -> Vec<Call> {
        let Worker { tasks, log, .. } = self.worker;
        match job.task.as_ref().and_then(|name| tasks.get(name)) {
            Some(task) => job.handle(task, *log),
            None => job.handle(&self.handler, *log),
        }
    }
}
