package claimq;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;

/** What the handler of a Worker gets. */
public final class Job extends Claim {
  /** Before the name of a task, among the capabilities of its jobs. */
  static final String TASK = "task:";

  public final long id;
  public final String lane;
  /** 0 is the first. */
  public final long attempt;
  /** The name that it was submitted with; null if there is none. */
  public final String task;

  private Connection own; // of the thread that the handler runs in
  private long leaseMs;
  private int naps;

  /** Thrown by a handler: try again after the delay. */
  public static final class Retry extends Exception {
    private static final long serialVersionUID = 1;
    final Duration delay;

    /** With a delay of null: after the job's own backoff. */
    public Retry(String reason, Duration delay) {
      super(reason);
      this.delay = delay;
    }
  }

  /** Thrown by a handler: never try again; the job becomes a dead letter. */
  public static final class Reject extends Exception {
    private static final long serialVersionUID = 1;

    public Reject(String reason) {
      super(reason);
    }
  }

  /** Thrown by a handler: give it back, unharmed; no attempt is used. */
  public static final class Release extends Exception {
    private static final long serialVersionUID = 1;
    final Duration delay;

    public Release() {
      this(null);
    }

    /** Nobody gets it before the delay is over. */
    public Release(Duration delay) {
      super("released");
      this.delay = delay;
    }
  }

  Job(Map<String, Object> row, BooleanSupplier stopping) {
    super(row, stopping);
    id = number("job_id");
    lane = (String) row.get("lane");
    attempt = number("attempt_index");
    task = ((List<?>) Json.read((String) row.get("capabilities"))).stream()
        .map(String::valueOf).filter(name -> name.startsWith(TASK)).findFirst()
        .map(name -> name.substring(TASK.length())).orElse(null);
  }

  @Override
  public String toString() {
    return "job " + id;
  }

  /**
   * What the step of this name gave when it was run the first time, in
   * whichever attempt of the job; if it never was, runs f and stores what that
   * gives, as JSON.  What f gives must be what Json.read() gives: a Map, List,
   * String, Long, Double, Boolean or null.  If f throws, nothing is stored.
   */
  public <T> T step(String name, Callable<T> f) throws Exception {
    return step(own, name, f);
  }

  /**
   * The same on a connection of the handler's own: inside a transaction, the
   * step is stored if and only if that is committed.
   */
  @SuppressWarnings("unchecked")
  public <T> T step(Connection db, String name, Callable<T> f)
      throws Exception {
    return step(db, name, f, value -> {
      String json = Json.write(value);
      if (!Objects.equals(Json.read(json), value)) {
        throw new IllegalArgumentException("step " + name + ": what is read"
            + " back would not be equal: a whole number must be a Long, any"
            + " other a Double, an array or a set a List");
      }
      return json;
    }, json -> (T) Json.read(json));
  }

  /** The same for any type, with your own way to write and to read it. */
  public <T> T step(String name, Callable<T> f, Json.Convert<T, String> write,
      Json.Convert<String, T> read) throws Exception {
    return step(own, name, f, write, read);
  }

  private <T> T step(Connection db, String name, Callable<T> f,
      Json.Convert<T, String> write, Json.Convert<String, T> read)
      throws Exception {
    List<Map<String, Object>> found = List.of();
    try {
      found = Claimq.rows(db, "SELECT value FROM claimq_steps WHERE job_id=?"
          + " AND name=?", id, name);
    } catch (SQLException error) { // until there is a first step
      if (!String.valueOf(error.getMessage()).contains("no such table")) {
        throw error;
      }
    }
    if (found.isEmpty()) {
      String value = write.apply(f.call());
      try {
        found = Claimq.rows(db, "SELECT claimq_step(?, ?, ?, ?, 'lease_ms', ?)"
            + " AS value", claimId, leaseToken, name, value, leaseMs);
        renewed();
      } catch (SQLException error) {
        isLoss(error);
        throw error;
      }
    }
    return read.apply((String) found.get(0).get("value"));
  }

  /**
   * Gives the job back for that time, once: when it comes back, the handler
   * begins anew, and this call returns at once.  Steps remember which of its
   * sleeps are over, so call them in the same order each time.
   */
  public void sleep(Duration time) throws Exception {
    naps++;
    long until = this.<Long>step("sleep-" + naps,
        () -> System.currentTimeMillis() + milliseconds(time));
    long left = until - System.currentTimeMillis();
    if (left > 0) {
      throw new Pause("delay_ms", left);
    }
  }

  public void sleep(long ms) throws Exception {
    sleep(Duration.ofMillis(ms));
  }

  /**
   * Returns if these jobs have ended, however; else gives the job back until
   * they have, when the handler begins anew.
   */
  public void waitFor(long... ids) throws SQLException {
    String list = Arrays.toString(ids);
    // Not ended, or never there: of that the release complains.
    if (!Claimq.rows(own, "SELECT 1 FROM json_each(?) WHERE value NOT BETWEEN 1"
        + " AND (SELECT seq FROM sqlite_sequence WHERE name='claimq_job') OR"
        + " EXISTS (SELECT 1 FROM claimq_job WHERE job_id=value"
        + " AND terminal_at_ms IS NULL)", list).isEmpty()) {
      throw new Pause("after", list);
    }
  }

  /** Has the handler work; the connection is for the steps. */
  void handle(Worker.Handler handler, Connection db, Duration lease) {
    own = db;
    leaseMs = lease.toMillis();
    handle(() -> handler.handle(this));
  }

  @Override
  List<Object[]> completed(Object result) {
    Object[] plain = call("complete(?, ?)");
    try {
      return List.of(call("complete(?, ?, 'result', ?)",
          Claimq.storable(result)), plain);
    } catch (Throwable error) {
      Claimq.log(this + " is done, but its result cannot be stored: "
          + text(error));
      return List.<Object[]>of(plain);
    }
  }

  @Override
  List<Object[]> failed(String reason, Long delayMs, String kind) {
    return List.of(call("retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)",
        reason, delayMs, kind), call("retry(?, ?, 'the handler failed')"));
  }
}
