package claimq;

import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Queue;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The loop of a worker: {@code new Worker("app.db", "mail", handler).run()}.
 * What the handler returns is the result of the job; if it throws, the job is
 * tried again later (a Job.Retry says when) or is a dead letter (Job.Reject).
 * job.isLost() says that somebody else has taken the job over: stop, nothing
 * counts any more.  SIGTERM, SIGINT and stop() end the loop: what is held and
 * not begun is given back at once, and the job at hand is finished.
 */
public final class Worker {
  /** What is done with a job; the value becomes its result. */
  public interface Handler {
    Object handle(Job job) throws Exception;
  }

  private final String file;
  private final String lane;
  private final Handler handler;
  /** The name under which jobs are held; by default one of its own. */
  public String owner = ProcessHandle.current().pid() + ":" + UUID.randomUUID();
  /** How long a job is held before others may take it, if it is not renewed. */
  public Duration lease = Duration.ofSeconds(30);
  /** How many jobs are taken at a time; they are worked on one by one. */
  public int batch = 1;
  /** What this worker can do, as a JSON array of strings. */
  public String capabilities = "[]";
  public long partition = 0;

  private final Queue<Job> held = new ConcurrentLinkedQueue<>(); // not begun
  private volatile Job atHand; // begun, and not settled
  private volatile boolean stopping;
  private final Semaphore stops = new Semaphore(0); // wakes renew()

  public Worker(String file, String lane, Handler handler) {
    this.file = file;
    this.lane = lane;
    this.handler = handler;
  }

  /** Ends run() soon. */
  public void stop() {
    stopping = true;
    stops.release();
  }

  /** Works until stop() or a signal; returns how many jobs were begun. */
  public long run() throws Exception {
    long begun = 0;
    try (Connection db = Claimq.connect(file);
        Connection second = Claimq.connect(file);
        Signals signals = new Signals(this::stop, "TERM", "INT")) {
      Thread renewer = new Thread(() -> renew(second), "claimq-renew");
      renewer.start();
      try {
        while (!stopping) {
          atHand = held.poll();
          if (atHand != null) {
            begun++;
            atHand.handle(handler);
            settle(db);
          } else if (!held.addAll(claim(db))) {
            Claimq.call(db, "SELECT claimq_wait(500, 'lane', ?, 'capabilities',"
                + " ?, 'partition', ?)", lane, capabilities, partition);
          }
        }
      } finally {
        renewer.interrupt();
        renewer.join();
        Stream.ofNullable(atHand).forEach(held::add); // it could not be settled
        giveBack(db);
      }
    }
    return begun;
  }

  private List<Job> claim(Connection db) throws Exception {
    return Claimq.rows(db, "SELECT * FROM claimq_lane WHERE lane=? AND owner=?"
        + " AND ttl_ms=? AND max_jobs=? AND capabilities=? AND partition=?",
        lane, owner, lease.toMillis(), batch, capabilities, partition).stream()
        .map(row -> new Job(row, () -> stopping)).collect(Collectors.toList());
  }

  /** Settles the job at hand and, if none is held, takes more: one commit. */
  private void settle(Connection db) throws Exception {
    held.addAll(Claimq.transaction(db, () -> {
      atHand.settle(db);
      return stopping || !held.isEmpty() ? List.of() : claim(db);
    }));
    atHand = null;
  }

  private void giveBack(Connection db) {
    for (Job job = held.poll(); job != null; job = held.poll()) {
      job.attempt(db, "release(?, ?)");
    }
  }

  /** The thread: renews what is held; a stop has it give back what waits. */
  private void renew(Connection db) {
    try {
      while (true) {
        if (stops.tryAcquire(lease.toMillis() / 3 + 1, TimeUnit.MILLISECONDS)) {
          giveBack(db);
        }
        Stream.concat(Stream.ofNullable(atHand), held.stream()).forEach(
            job -> job.attempt(db, "renew(?, ?, ?)", lease.toMillis()));
        held.removeIf(Job::isLost);
      }
    } catch (InterruptedException over) {
      // run() ends.
    }
  }
}
