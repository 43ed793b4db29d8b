package claimq;

import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.function.BooleanSupplier;

/**
 * Something that is held, and what becomes of it by what its handler does.
 *
 * A handler is somebody else's program: it may return anything, throw anything,
 * and the text of what it throws may throw in turn.  None of that may end the
 * worker, and all of it counts: what came of a claim is a list of calls, the
 * best first, and if SQLite or claimq refuses the values of one, the next is
 * made.  The last has no value of the handler's.
 */
class Claim extends Message {
  private static final Duration MAX_DELAY = Duration.ofMillis(1L << 53);

  public final String claimId;
  public final String leaseToken;

  private volatile boolean lost;
  private volatile boolean completed; // by the handler itself, which is no loss
  private volatile long renewedAt = System.nanoTime();
  private final BooleanSupplier stopping;
  private List<Object[]> calls; // a verb and its values, each

  /**
   * Thrown by sleep() and waitFor() of a job, and not for handlers to catch: it
   * is given back, and its handler begins anew when it comes back.
   */
  static final class Pause extends Error {
    private static final long serialVersionUID = 1;
    private final transient List<Object[]> calls;

    Pause(String option, Object value) {
      super(option + " " + value, null, false, false);
      calls = List.of(call("release(?, ?, ?, ?)", option, value),
          call("retry(?, ?, ?)", "cannot wait: " + getMessage()));
    }
  }

  Claim(Map<String, Object> row, BooleanSupplier stopping) {
    super(row);
    this.stopping = stopping;
    claimId = (String) row.get("claim_id");
    leaseToken = (String) row.get("lease_token");
  }

  /**
   * True when somebody else has taken it over, or when it was cancelled: the
   * handler should stop, nothing that it still does counts.
   */
  public boolean isLost() {
    return lost;
  }

  /** True when the worker is to end, and waits for this handler. */
  public boolean isStopping() {
    return stopping.getAsBoolean();
  }

  /**
   * Completes it on a connection of the handler's own, inside a transaction
   * with the handler's writes: both happen, or neither.
   */
  public void complete(Connection db) throws SQLException {
    completed = true;
    Claimq.call(db, "SELECT claimq_complete(?, ?)", claimId, leaseToken);
  }

  /** The calls if the handler has returned this. */
  List<Object[]> completed(Object result) {
    return List.<Object[]>of(call("complete(?, ?)"));
  }

  /** The calls if it has failed; without a delay: after its own backoff. */
  List<Object[]> failed(String reason, Long delayMs, String kind) {
    return List.of(call("retry(?, ?, ?, 'delay_ms', ?)", reason, delayMs),
        call("retry(?, ?, 'the handler failed')"));
  }

  List<Object[]> rejected(String reason) {
    return List.of(call("reject(?, ?, ?)", reason),
        call("reject(?, ?, 'rejected')"));
  }

  List<Object[]> released(Long delayMs) {
    return List.of(call("release(?, ?, 'delay_ms', ?)", delayMs),
        call("release(?, ?)"));
  }

  /** Has the handler work, and remembers the calls that settle the claim. */
  void handle(Callable<Object> work) {
    try {
      calls = completed(work.call());
    } catch (Pause pause) {
      calls = pause.calls;
    } catch (Job.Release error) {
      calls = released(milliseconds(error.delay));
    } catch (Job.Reject error) {
      calls = rejected(text(error));
    } catch (Job.Retry error) {
      calls = failed(text(error), milliseconds(error.delay), null);
    } catch (Throwable error) {
      Claimq.log(this + " failed: " + text(error), error);
      String name = error.getClass().getName();
      calls = failed(describe(error), null,
          name.substring(Math.max(0, name.length() - 64)));
    }
    Thread.interrupted(); // a handler that was interrupted is no reason to end
  }

  static Object[] call(Object... words) {
    return words;
  }

  /** In whole milliseconds, as claimq takes them. */
  static Long milliseconds(Duration time) {
    if (time == null) {
      return null;
    }
    Duration fits = time.isNegative() ? Duration.ZERO
        : time.compareTo(MAX_DELAY) > 0 ? MAX_DELAY : time;
    return fits.plusNanos(999_999).toMillis();
  }

  static String text(Throwable error) {
    try {
      return String.valueOf(error.getMessage());
    } catch (Throwable worse) {
      return error.getClass().getName() + ", whose text throws an exception";
    }
  }

  /** The class of an error, its text and the end of the trace. */
  private static String describe(Throwable error) {
    StringBuilder all = new StringBuilder(error.getClass().getName());
    all.append(": ").append(text(error));
    try {
      for (StackTraceElement frame : Arrays.asList(error.getStackTrace())
          .subList(0, Math.min(3, error.getStackTrace().length))) {
        all.append("\n  at ").append(frame);
      }
    } catch (Throwable none) {
      all.append("\n  without a trace");
    }
    return all.toString();
  }

  /** Makes the first of the calls whose values are accepted. */
  void settle(Connection db) throws SQLException {
    for (int i = 0;; i++) {
      Object[] words = calls.get(i);
      try {
        verb(db, (String) words[0],
            Arrays.copyOfRange(words, 1, words.length));
        return;
      } catch (SQLException | RuntimeException error) {
        if (i + 1 == calls.size() || Claimq.waitingCures(error)) {
          throw error;
        }
        Claimq.log(this + ": " + words[0] + " was refused: " + text(error));
      }
    }
  }

  /** Calls a verb.  If that fails it is tried again, or the lease ends. */
  void attempt(Connection db, String verb, Object... values) {
    try {
      verb(db, verb, values);
    } catch (SQLException error) {
      Claimq.log(this + ": " + verb + ": " + error.getMessage());
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
      if (!isLoss(error)) {
        throw error;
      }
    }
  }

  /** Does the error say that the claim is lost?  That is remembered. */
  boolean isLoss(SQLException error) {
    boolean loss = "claim_lost".equals(Claimq.code(error));
    lost |= loss && !completed;
    return loss;
  }

  /** Is it to be looked at, whether it still holds? */
  boolean isOpen() {
    return !lost && !completed;
  }

  /** Its lease begins anew. */
  void renewed() {
    renewedAt = System.nanoTime();
  }

  /** How much of its lease is over. */
  long ageMs() {
    return (System.nanoTime() - renewedAt) / 1_000_000;
  }
}
