package claimq;

import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;
import java.util.function.BooleanSupplier;

/** What a handler gets.  Row has all columns of the claim. */
public final class Job {
  public final long id;
  public final Object payload;
  /** 0 is the first. */
  public final long attempt;
  public final String claimId;
  public final String leaseToken;
  public final Map<String, Object> row;

  private volatile boolean lost;
  private final BooleanSupplier stopping;
  private Object result;
  private Throwable thrown;

  /** Thrown by a handler: try again after the delay. */
  public static final class Retry extends Exception {
    final Long delayMs;

    /** With a delay of null: after the job's own backoff. */
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

  Job(Map<String, Object> row, BooleanSupplier stopping) {
    this.row = row;
    this.stopping = stopping;
    id = ((Number) row.get("job_id")).longValue();
    payload = row.get("payload");
    attempt = ((Number) row.get("attempt_index")).longValue();
    claimId = (String) row.get("claim_id");
    leaseToken = (String) row.get("lease_token");
  }

  /** The payload as text. */
  public String text() {
    return payload instanceof byte[]
        ? new String((byte[]) payload, StandardCharsets.UTF_8)
        : String.valueOf(payload);
  }

  /**
   * True when somebody else has taken the job over: the handler should stop,
   * nothing that it still does counts.
   */
  public boolean isLost() {
    return lost;
  }

  /** True when the worker is to end, and waits for this handler. */
  public boolean isStopping() {
    return stopping.getAsBoolean();
  }

  /**
   * Completes the job on a connection of the handler's own, inside a
   * transaction with the handler's writes: both happen, or neither.
   */
  public void complete(Connection db) throws SQLException {
    Claimq.call(db, "SELECT claimq_complete(?, ?)", claimId, leaseToken);
  }

  /** Has the handler work, and remembers what it returns or throws. */
  void handle(Worker.Handler handler) throws InterruptedException {
    try {
      result = handler.handle(this);
    } catch (InterruptedException error) {
      throw error; // of the worker's thread: its run() ends
    } catch (Throwable error) {
      thrown = error;
    }
  }

  /** Settles the job by what its handler did. */
  void settle(Connection db) throws SQLException {
    if (thrown == null) {
      verb(db, "complete(?, ?, 'result', ?)", result);
    } else if (thrown instanceof Reject) {
      verb(db, "reject(?, ?, ?)", String.valueOf(thrown.getMessage()));
    } else if (thrown instanceof Retry) {
      verb(db, "retry(?, ?, ?, 'delay_ms', ?)",
          String.valueOf(thrown.getMessage()), ((Retry) thrown).delayMs);
    } else {
      verb(db, "retry(?, ?, ?)", thrown.toString());
    }
  }

  /** Calls a verb.  If that fails it is tried again, or the lease ends. */
  void attempt(Connection db, String verb, Object... values) {
    try {
      verb(db, verb, values);
    } catch (SQLException error) {
      // Nothing is lost by it.
    }
  }

  /**
   * Calls a verb, such as "renew(?, ?, ?)".  That the claim is lost is
   * remembered, and is no error.
   */
  private void verb(Connection db, String verb, Object... values)
      throws SQLException {
    Object[] all = new Object[values.length + 2];
    all[0] = claimId;
    all[1] = leaseToken;
    System.arraycopy(values, 0, all, 2, values.length);
    try {
      Claimq.call(db, "SELECT claimq_" + verb, all);
    } catch (SQLException error) {
      if (!"claim_lost".equals(Claimq.code(error))) {
        throw error;
      }
      lost = true;
    }
  }
}
