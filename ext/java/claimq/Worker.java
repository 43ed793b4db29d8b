package claimq;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.stream.Collectors;

/**
 * The loop of a worker, whole.
 *
 * <pre>{@code
 * new Worker("app.db", "mail", job -> send(job.text())).run();
 * }</pre>
 *
 * What the handler does decides what becomes of the job: it returns (completed,
 * with what it returns as the result), throws a Job.Reject (to the dead
 * letters), or throws anything else (retried later; a Job.Retry says when).
 *
 * <p>One connection claims, waits and settles; it settles a job and takes the
 * next one in the same transaction.  A thread with a connection of its own
 * renews what is held at a third of the lease.  If somebody else has taken a
 * job over (after a pause longer than the lease, or by claimq_revoke),
 * job.isLost() says so, and the worker goes on with the next job.
 *
 * <p>SIGTERM and SIGINT, or stop(), end the loop: what is held and not begun is
 * given back at once, and the job at hand is finished.
 */
public final class Worker {
  private static final int WAIT_MS = 500; // a stop is seen when it returns

  /** What is done with a job; the value becomes its result. */
  @FunctionalInterface
  public interface Handler {
    Object handle(Job job) throws Exception;
  }

  private final String file;
  private final String lane;
  private final Handler handler;
  private String owner = ProcessHandle.current().pid() + ":"
      + UUID.randomUUID();
  private long leaseMs = 30000;
  private int batch = 1;
  private String capabilities = "[]";
  private long partition = 0;

  private volatile boolean stopping;
  private volatile boolean ended;
  private final List<Job> held = new ArrayList<>(); // used under its lock

  public Worker(String file, String lane, Handler handler) {
    this.file = file;
    this.lane = lane;
    this.handler = handler;
  }

  /** The name under which jobs are held; by default one of its own. */
  public Worker owner(String name) {
    owner = name;
    return this;
  }

  /** How long a job is held before others may take it, if not renewed. */
  public Worker lease(Duration lease) {
    leaseMs = lease.toMillis();
    return this;
  }

  /** How many jobs are taken at a time; they are worked on one by one. */
  public Worker batch(int jobs) {
    batch = jobs;
    return this;
  }

  /** What this worker can do, as a JSON array of strings. */
  public Worker capabilities(String json) {
    capabilities = json;
    return this;
  }

  public Worker partition(long key) {
    partition = key;
    return this;
  }

  /** Ends run() soon. */
  public void stop() {
    synchronized (held) {
      stopping = true;
      held.notifyAll();
    }
  }

  /** Works until stop() or a signal; returns how many jobs were begun. */
  public long run() throws Exception {
    long begun = 0;
    try (Connection db = Claimq.connect(file);
        Connection second = Claimq.connect(file);
        Signals signals = new Signals(this::stop, "TERM", "INT")) {
      Thread renewer = new Thread(() -> renew(second), "claimq-renew");
      renewer.setDaemon(true);
      renewer.start();
      try {
        while (!stopping) {
          Job job = begin();
          begun += job == null ? 0 : 1;
          List<Job> taken = job == null ? claimOrWait(db) : work(db, job);
          synchronized (held) {
            held.remove(job);
            held.addAll(taken);
          }
        }
      } finally {
        ended = true;
        stop();
        renewer.join();
        giveBack(db, job -> true); // also what could not be settled
      }
    }
    return begun;
  }

  /** The next job that is held, which is begun then, or null. */
  private Job begin() {
    synchronized (held) {
      held.removeIf(job -> job.lost);
      if (stopping || held.isEmpty()) {
        return null;
      }
      held.get(0).begun = true;
      return held.get(0);
    }
  }

  /** Has the handler work; settles, and takes the next with the same commit. */
  private List<Job> work(Connection db, Job job) throws Exception {
    job.handle(handler);
    return Claimq.transaction(db, () -> {
      job.settle(db);
      synchronized (held) {
        if (stopping || held.size() > 1) {
          return List.of();
        }
      }
      return claim(db);
    });
  }

  private List<Job> claimOrWait(Connection db) throws SQLException {
    List<Job> jobs = claim(db);
    if (jobs.isEmpty()) {
      Claimq.call(db, "SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,"
          + " 'partition', ?)", WAIT_MS, lane, capabilities, partition);
    }
    return jobs;
  }

  private List<Job> claim(Connection db) throws SQLException {
    List<Job> jobs = new ArrayList<>();
    for (Map<String, Object> row : Claimq.rows(db, "SELECT * FROM claimq_lane"
        + " WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=?"
        + " AND capabilities=? AND partition=?",
        lane, owner, leaseMs, batch, capabilities, partition)) {
      jobs.add(new Job(row, () -> stopping));
    }
    return jobs;
  }

  /** Releases some of the jobs that are held. */
  private void giveBack(Connection db, Predicate<Job> which) {
    List<Job> back;
    synchronized (held) {
      back = held.stream().filter(which).collect(Collectors.toList());
      held.removeAll(back);
    }
    back.forEach(job -> job.attempt(db, "release(?, ?)"));
  }

  /**
   * The thread: renews what is held, until the end; when the worker is
   * stopping, gives back what is not begun.
   */
  private void renew(Connection db) {
    for (boolean stopSeen = false; !ended;) {
      synchronized (held) {
        try {
          if (!ended && stopping == stopSeen) {
            held.wait(Math.max(1, leaseMs / 3));
          }
        } catch (InterruptedException error) {
          return;
        }
        stopSeen = stopping;
      }
      if (stopSeen) {
        giveBack(db, job -> !job.begun);
      }
      List<Job> jobs;
      synchronized (held) {
        jobs = List.copyOf(held);
      }
      jobs.forEach(job -> job.attempt(db, "renew(?, ?, ?)", leaseMs));
    }
  }
}
