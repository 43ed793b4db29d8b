package claimq;

import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A loop that takes work, has it done and settles it: what Worker, Outbox and
 * Session have in common.
 *
 * <p>Each of `concurrency` threads, of which the caller's is the first, has a
 * connection, on which it claims and settles: it settles one claim and takes
 * the next in the same transaction, one commit for each.  If there is nothing,
 * one of them waits, for all.
 *
 * <p>A lock that lasts longer than the timeout, or a full disk, does not end
 * it: it says so in the log, waits and goes on, and what it has done is settled
 * then.  A file that was removed or replaced ends it: its work is not there
 * any more.  SIGTERM, SIGINT and stop() end the loop: what is held and
 * not begun is given back at once, and the work at hand is finished.
 */
abstract class Loop<C extends Claim> extends Holder<C> {
  private static final int WAIT_MS = 500; // a stop is seen when it is over,
  private static final int WAIT_BUSY_MS = 100; // and what others have taken

  /** How many handlers work at a time, each in a thread of its own. */
  public int concurrency = 1;

  private final Object looking = new Object(); // who asks for work, for all
  private final AtomicLong begun = new AtomicLong();
  private Throwable trouble;

  Loop(String file) {
    super(file);
  }

  /** Takes some; none if there is nothing now. */
  abstract List<C> claim(Connection db) throws Exception;

  /** Waits for at most that time until there may be something. */
  abstract void await(Connection db, int ms) throws Exception;

  /** Does the work; the connection is not used by anybody else meanwhile. */
  abstract void handle(C claim, Connection db) throws Exception;

  /** Works until stop() or a signal; returns how many jobs were begun. */
  public long run() throws Exception {
    return run(false);
  }

  /** For tests: works until nothing can be claimed now. */
  public long drain() throws Exception {
    return run(true);
  }

  private long run(boolean drain) throws Exception {
    begun.set(0);
    trouble = null;
    List<Connection> all = new ArrayList<>();
    try (Signals signals = new Signals(this::stop, "TERM", "INT")) {
      while (all.size() <= concurrency) {
        Connection db = open();
        if (db == null) {
          return 0; // it was stopped
        }
        all.add(db);
      }
      rememberFile(file);
      Claimq.say(this + " begins: owner " + owner + ", concurrency "
          + concurrency);
      run(all, drain);
      Claimq.say(this + " ends: " + begun + " begun");
    } finally {
      all.forEach(Claimq::close);
    }
    if (trouble instanceof Error) {
      throw (Error) trouble;
    } else if (trouble != null) {
      throw (Exception) trouble;
    }
    return begun.get();
  }

  private void run(List<Connection> all, boolean drain) {
    Connection first = all.get(0);
    Thread keeper = new Thread(() -> keep(all.get(concurrency)), "claimq-keep");
    List<Thread> threads = new ArrayList<>();
    for (Connection db : all.subList(1, concurrency)) {
      threads.add(new Thread(() -> work(db, drain), "claimq-work"));
    }
    keeper.start();
    threads.forEach(Thread::start);
    work(first, drain);
    threads.forEach(Holder::join);
    keeper.interrupt();
    join(keeper);
    waiting.clear();
    waiting.addAll(held); // what could not be settled
    giveBack(first);
  }

  /** The trouble of one thread ends them all. */
  private synchronized void fail(Throwable error) {
    trouble = trouble == null ? error : trouble;
    stop();
  }

  private void work(Connection db, boolean drain) {
    try {
      while (!stopping) {
        checkFile();
        C claim = next(db, drain);
        if (claim != null) {
          begun.incrementAndGet();
          handle(claim, db);
          settle(db, claim);
        } else if (drain) {
          return;
        }
      }
    } catch (Throwable error) {
      fail(error);
    }
  }

  /** What is to be done next; null if there is nothing yet. */
  private C next(Connection db, boolean drain) throws Exception {
    C claim = begin();
    if (claim != null) {
      return claim;
    }
    synchronized (looking) {
      claim = begin();
      if (claim == null && !stopping) {
        patiently("looking for jobs", 0, () -> {
          take(claim(db));
          return null;
        });
        claim = begin();
      }
      if (claim == null && !stopping && !drain) {
        patiently("waiting for jobs", 0, () -> {
          await(db, held.isEmpty() ? WAIT_MS : WAIT_BUSY_MS);
          return null;
        });
      }
      return claim;
    }
  }

  /**
   * Settles a claim and, if none waits, takes more: one commit.  What cannot be
   * settled before the end is given back.
   */
  private void settle(Connection db, C claim) throws Exception {
    List<C> more = patiently("settling " + claim, lease.toMillis(),
        () -> Claimq.transaction(db, () -> {
          claim.settle(db);
          return stopping || !waiting.isEmpty() ? List.<C>of() : claim(db);
        }));
    if (more != null) {
      take(more);
      held.remove(claim);
    }
  }
}
