package claimq;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Map;

/**
 * At most one holds a subject, which is kept until close():
 *
 * <pre>{@code
 * try (Contest leader = new Contest("app.db", "leader")) {
 *   leader.acquire();
 *   while (!leader.isLost()) {
 *     lead(leader.fencingToken());
 *   }
 * }
 * }</pre>
 */
public final class Contest extends Holder<Claim> implements AutoCloseable {
  private static final long WAIT_MS = 500; // a stop is seen when it is over

  private final String subject;
  /** A subject is a kind and a label. */
  public int kind = 0;

  private Connection db;
  private Connection second;
  private Thread keeper;
  private volatile Claim claim; // null: it is not held

  public Contest(String file, String subject) {
    super(file);
    this.subject = subject;
  }

  /** Waits until it is held; false: stop() was called meanwhile. */
  public boolean acquire() throws Exception {
    return acquire(null);
  }

  /** Waits for at most that time; Duration.ZERO: asks once.  Is it held? */
  public boolean acquire(Duration limit) throws Exception {
    if (!isLost()) {
      return true;
    }
    close(); // what was lost
    long begin = System.nanoTime();
    db = open();
    second = open();
    rememberFile(file);
    while (!stopping) {
      Map<String, Object> row = patiently("asking", 0, () -> Claimq.rows(db,
          "SELECT * FROM claimq_contest WHERE label=? AND owner=? AND"
          + " lease_ms=? AND kind=?", subject, owner, lease.toMillis(), kind)
          .get(0));
      if (row != null && "claimed".equals(row.get("outcome"))) {
        keep(row);
        return true;
      }
      long left = limit == null ? WAIT_MS : Math.min(WAIT_MS, limit.toMillis()
          - (System.nanoTime() - begin) / 1_000_000);
      if (left <= 0) {
        break;
      }
      patiently("waiting", 0, () -> Claimq.call(db,
          "SELECT claimq_wait(?, 'contest', ?, 'kind', ?)", left, subject,
          kind));
    }
    close();
    return false;
  }

  private void keep(Map<String, Object> row) {
    claim = new Claim(row, () -> stopping);
    held.add(claim);
    keeper = new Thread(() -> keep(second), "claimq-keep");
    keeper.setDaemon(true);
    keeper.start();
  }

  /** True when it is not held, or not any more: stop at once. */
  public boolean isLost() {
    return claim == null || claim.isLost();
  }

  /** Greater than that of every holder before: for resources elsewhere. */
  public long fencingToken() {
    return claim.number("fencing_token");
  }

  /** In a transaction of your own: throws claim_lost unless it is held. */
  public void guard(Connection own) throws SQLException {
    Claimq.call(own, "SELECT claimq_guard(?, ?)", claim.claimId,
        claim.leaseToken);
  }

  @Override
  public String toString() {
    return "contest " + subject;
  }

  /** Gives it back. */
  @Override
  public void close() throws SQLException {
    if (claim != null) {
      keeper.interrupt();
      join(keeper);
      claim.attempt(db, "release(?, ?)");
      held.clear();
      claim = null;
    }
    for (Connection one : new Connection[] {db, second}) {
      if (one != null) {
        one.close();
      }
    }
    db = null;
    second = null;
  }
}
