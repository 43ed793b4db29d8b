package claimq;

import java.sql.Connection;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/**
 * What is enqueued in each session in order, a turn at a time; with
 * concurrency, of several sessions at once.  If the handler returns, the turn
 * is completed; if it throws, it comes again, and nothing behind it before.
 */
public final class Session extends Loop<Session.Turn> {
  private static final long MAX_BACKOFF_MS = 60_000;

  /** What is done with a turn. */
  public interface Handler {
    void handle(Turn turn) throws Exception;
  }

  /** What is next in a session; row and payload are those of the first. */
  public static final class Turn extends Claim implements Iterable<Message> {
    public final String session;
    public final List<Message> batches;

    Turn(List<Map<String, Object>> rows, BooleanSupplier stopping) {
      super(rows.get(0), stopping);
      session = (String) row.get("session");
      batches = rows.stream().map(Message::new).collect(Collectors.toList());
    }

    @Override
    public Iterator<Message> iterator() {
      return batches.iterator();
    }

    @Override
    public String toString() {
      return "session " + session;
    }

    /** A session has no backoff of its own, and no last attempt. */
    @Override
    List<Object[]> failed(String reason, Long delayMs, String kind) {
      long backoff = Math.min(MAX_BACKOFF_MS,
          1000L << Math.min(number("attempts"), 6));
      return super.failed(reason, delayMs == null ? backoff : delayMs, kind);
    }
  }

  private final Handler handler;
  /** Only this session; null: any. */
  public String session = null;
  /** How many batches a turn has at most; null: 32. */
  public Integer max = null;

  public Session(String file, Handler handler) {
    super(file);
    this.handler = handler;
  }

  @Override
  public String toString() {
    return session == null ? "all sessions" : "session " + session;
  }

  @Override
  List<Turn> claim(Connection db) throws Exception {
    List<Map<String, Object>> rows = Claimq.rows(db, "SELECT * FROM claimq"
        + " WHERE session=? AND owner=? AND lease_ms=? AND max=? AND serial=1"
        + " AND take='any'", session, owner, lease.toMillis(), max);
    return rows.isEmpty() ? List.of()
        : List.of(new Turn(rows, () -> stopping));
  }

  @Override
  void await(Connection db, int ms) throws Exception {
    Claimq.call(db, "SELECT claimq_wait(?, 'session', ?, 'serial', 1, 'take',"
        + " 'any')", ms, session);
  }

  @Override
  void handle(Turn turn, Connection db) {
    turn.handle(() -> {
      handler.handle(turn);
      return null;
    });
  }
}
