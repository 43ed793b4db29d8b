package claimq;

import java.sql.Connection;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;

/**
 * The messages of each partition of a queue in order, a batch at a time; with
 * concurrency, those of several partitions at once.  If the handler returns,
 * the batch is completed; if it throws, what follows the messages that are
 * done(), in order, comes again; Job.Reject makes dead letters of it.
 */
public final class Outbox extends Loop<Outbox.Batch> {
  /** What is done with a batch. */
  public interface Handler {
    void handle(Batch batch) throws Exception;
  }

  /** Messages of one partition; row and payload are those of the first. */
  public static final class Batch extends Claim implements Iterable<Message> {
    public final List<Message> messages;
    public final long partition;
    private final Set<Message> done = new HashSet<>();

    Batch(List<Map<String, Object>> rows, BooleanSupplier stopping) {
      super(rows.get(0), stopping);
      messages = rows.stream().map(Message::new).collect(Collectors.toList());
      partition = number("partition");
    }

    /**
     * If the handler fails later, this message does not come again, provided
     * that those before it are done as well.
     */
    public void done(Message message) {
      done.add(message);
    }

    @Override
    public Iterator<Message> iterator() {
      return messages.iterator();
    }

    @Override
    public String toString() {
      return "messages from " + row.get("seq") + " of " + row.get("queue") + "/"
          + partition;
    }

    private int processed() {
      int n = 0;
      while (n < messages.size() && done.contains(messages.get(n))) {
        n++;
      }
      return n;
    }

    @Override
    List<Object[]> failed(String reason, Long delayMs, String kind) {
      return List.of(call("retry(?, ?, ?, 'delay_ms', ?, 'processed', ?)",
          reason, delayMs, processed()), call("retry(?, ?,"
          + " 'the handler failed', 'processed', ?)", processed()));
    }

    @Override
    List<Object[]> rejected(String reason) {
      return List.of(call("reject(?, ?, ?, 'processed', ?)", reason,
          processed()), call("reject(?, ?, 'rejected', 'processed', ?)",
          processed()));
    }

    @Override
    List<Object[]> released(Long delayMs) {
      return processed() == 0 ? super.released(delayMs)
          : failed("released", delayMs == null ? 0 : delayMs, null);
    }
  }

  private final String queue;
  private final Handler handler;
  /** How many messages a batch has at most; null: as claimq_queue says. */
  public Integer max = null;
  /** Only this partition; null: the one that waits longest. */
  public Integer partition = null;

  public Outbox(String file, String queue, Handler handler) {
    super(file);
    this.queue = queue;
    this.handler = handler;
  }

  @Override
  public String toString() {
    return "outbox " + queue;
  }

  @Override
  List<Batch> claim(Connection db) throws Exception {
    List<Map<String, Object>> rows = Claimq.rows(db, "SELECT * FROM"
        + " claimq_outbox WHERE queue=? AND owner=? AND lease_ms=? AND max=?"
        + " AND partition=?", queue, owner, lease.toMillis(), max, partition);
    return rows.isEmpty() ? List.of()
        : List.of(new Batch(rows, () -> stopping));
  }

  @Override
  void await(Connection db, int ms) throws Exception {
    Claimq.call(db, "SELECT claimq_wait(?, 'outbox', ?, 'partition', ?)", ms,
        queue, partition);
  }

  @Override
  void handle(Batch batch, Connection db) {
    batch.handle(() -> {
      handler.handle(batch);
      return null;
    });
  }
}
