package claimq;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;

/**
 * The loop of a worker, whole.
 *
 * <pre>{@code
 * new Worker("app.db", "mail", job -> send(job.text())).run();
 * }</pre>
 *
 * What the handler does decides what becomes of the job: it returns (completed,
 * with what it returns as the result), throws a Reject (to the dead letters),
 * or throws anything else (retried later; a Retry says when).
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

  /** Thrown by a handler: try again after the delay. */
  public static final class Retry extends Exception {
    final Long delayMs;

    public Retry(String reason, Duration delay) {
      super(reason);
      delayMs = delay == null ? null : delay.toMillis();
    }
  }

  /** Thrown by a handler: never try again; the job becomes a dead letter. */
  public static final class Reject extends Exception {
    public Reject(String reason) {
      super(reason);
    }
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
  private long begun;
  private final List<Job> held = new ArrayList<>();
  private boolean ended; // these two, and begun of each job, under held's lock

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
    try (Signals signals = new Signals(this::stop, "TERM", "INT");
        Connection db = Claimq.connect(file);
        Connection second = Claimq.connect(file)) {
      Thread renewer = new Thread(() -> renew(second), "claimq-renew");
      renewer.setDaemon(true);
      renewer.start();
      try {
        while (!stopping) {
          step(db);
        }
      } finally {
        synchronized (held) {
          stopping = true;
          ended = true;
          held.notifyAll();
        }
        renewer.join();
      }
    }
    return begun;
  }

  /** Works on the next job that is held, or takes some, or waits for one. */
  private void step(Connection db) throws Exception {
    Job job = begin();
    if (job != null) {
      handle(db, job);
    } else if (!swap(null, claim(db))) {
      Claimq.call(db, "SELECT claimq_wait(?, 'lane', ?, 'capabilities', ?,"
          + " 'partition', ?)", WAIT_MS, lane, capabilities, partition);
    }
  }

  /** Calls the handler, and settles by what it does. */
  private void handle(Connection db, Job job) throws Exception {
    String verb = "retry(?, ?, ?, 'delay_ms', ?)";
    Object[] values;
    try {
      Object result = handler.handle(job);
      verb = "complete(?, ?, 'result', ?)";
      values = new Object[] {result};
    } catch (Reject error) {
      verb = "reject(?, ?, ?)";
      values = new Object[] {String.valueOf(error.getMessage())};
    } catch (Retry error) {
      values = new Object[] {String.valueOf(error.getMessage()),
          error.delayMs};
    } catch (InterruptedException error) {
      throw error;
    } catch (Exception error) {
      values = new Object[] {error.toString(), null};
    }
    settle(db, job, verb, values);
  }

  /** Settles the job, and takes the next one with the same commit. */
  private void settle(Connection db, Job job, String verb, Object[] values)
      throws Exception {
    boolean last;
    synchronized (held) {
      last = held.size() <= 1;
    }
    swap(job, Claimq.transaction(db, () -> {
      if (!job.lost) {
        call(db, job, verb, values);
      }
      return last && !stopping ? claim(db) : List.of();
    }));
  }

  private List<Job> claim(Connection db) throws SQLException {
    List<Job> jobs = new ArrayList<>();
    try (PreparedStatement statement = db.prepareStatement(
        "SELECT * FROM claimq_lane WHERE lane=? AND owner=? AND ttl_ms=?"
        + " AND max_jobs=? AND capabilities=? AND partition=?")) {
      Object[] values = {lane, owner, leaseMs, batch, capabilities, partition};
      for (int i = 0; i < values.length; i++) {
        statement.setObject(i + 1, values[i]);
      }
      try (ResultSet rows = statement.executeQuery()) {
        int n = rows.getMetaData().getColumnCount();
        while (rows.next()) {
          Map<String, Object> row = new LinkedHashMap<>();
          for (int i = 1; i <= n; i++) {
            row.put(rows.getMetaData().getColumnName(i), rows.getObject(i));
          }
          jobs.add(new Job(row, () -> stopping));
        }
      }
    }
    return jobs;
  }

  /** This one is no longer held, but those are.  True: some are. */
  private boolean swap(Job done, List<Job> jobs) {
    synchronized (held) {
      held.remove(done);
      held.addAll(jobs);
      return !held.isEmpty();
    }
  }

  /** The next job that is held, which is begun then, or null. */
  private Job begin() {
    synchronized (held) {
      held.removeIf(job -> job.lost);
      if (stopping || held.isEmpty()) {
        return null;
      }
      begun++;
      held.get(0).begun = true;
      return held.get(0);
    }
  }

  /** Calls a verb.  A lost claim is remembered, and is no error. */
  private static void call(Connection db, Job job, String verb,
      Object... values) throws SQLException {
    Object[] all = new Object[values.length + 2];
    all[0] = job.claimId;
    all[1] = job.leaseToken;
    System.arraycopy(values, 0, all, 2, values.length);
    try {
      Claimq.call(db, "SELECT claimq_" + verb, all);
    } catch (SQLException error) {
      if (!"claim_lost".equals(Claimq.code(error))) {
        throw error;
      }
      job.lost = true;
    }
  }

  /**
   * The thread: renews what is held; when the worker is stopping, gives back
   * what is not begun, and at the end what could not be settled.  What fails
   * here for another reason than a lost claim is tried again at the next beat,
   * or the lease ends.
   */
  private void renew(Connection db) {
    boolean end = false;
    while (!end) {
      Map<Boolean, List<Job>> jobs;
      synchronized (held) {
        try {
          if (!ended && !(stopping && held.stream().anyMatch(j -> !j.begun))) {
            held.wait(Math.max(1, leaseMs / 3));
          }
        } catch (InterruptedException error) {
          return;
        }
        end = ended;
        jobs = held.stream().collect(Collectors.partitioningBy(
            job -> !ended && (job.begun || !stopping)));
        held.retainAll(jobs.get(true));
      }
      jobs.get(false).forEach(job -> attempt(db, job, "release(?, ?)"));
      jobs.get(true).forEach(
          job -> attempt(db, job, "renew(?, ?, ?)", leaseMs));
    }
  }

  private static void attempt(Connection db, Job job, String verb,
      Object... values) {
    try {
      call(db, job, verb, values);
    } catch (SQLException error) {
      // Nothing is lost by it.
    }
  }
}
