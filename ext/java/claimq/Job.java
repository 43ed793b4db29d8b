package claimq;

import java.sql.Connection;
import java.sql.SQLException;
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

  volatile boolean lost;
  boolean begun; // under the worker's lock
  private final BooleanSupplier stopping;

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
    return payload instanceof byte[] ? new String((byte[]) payload)
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
}
