package claimq;

import java.io.FileNotFoundException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * What is held, and the thread that keeps it, on a connection of its own.
 *
 * <p>The thread renews a claim when a third of its lease is over, and asks
 * twenty times a second whether all of them still hold: one that was taken away
 * (claimq_revoke, claimq_cancel with force, a lease that ended and another
 * worker) is lost then.  After a stop() it gives back what is not begun.
 */
abstract class Holder<C extends Claim> extends Patient {
  private static final int BEAT_MS = 50;
  private static final int ASKED = 1024; // claims that claimq_wait takes

  final String file;
  /** The name under which work is held; by default one of its own. */
  public String owner = ProcessHandle.current().pid() + ":" + UUID.randomUUID();
  /** How long it is held before others may take it, if it is not renewed. */
  public Duration lease = Duration.ofSeconds(30);
  /** How long to wait for a lock. */
  public Duration timeout = Duration.ofSeconds(30);
  /** Create the database if there is no such file? */
  public boolean create = false;
  /** "normal", or "full": each settlement survives a power cut. */
  public String synchronous = "normal";

  final Set<C> held = ConcurrentHashMap.newKeySet();
  final Queue<C> waiting = new ConcurrentLinkedQueue<>(); // not begun
  private final Semaphore stops = new Semaphore(0); // wakes the thread

  Holder(String file) {
    this.file = file;
  }

  /** Ends the work soon; from any thread. */
  public void stop() {
    stopping = true;
    stops.release();
  }

  /** A connection; null if it was stopped before the file could be opened. */
  Connection open() throws Exception {
    if (!Set.of("normal", "full").contains(synchronous)) {
      throw new IllegalArgumentException("synchronous is normal or full");
    }
    boolean plain = !file.isEmpty() && !file.matches("(?s)(:|file:).*");
    if (!create && plain && Files.notExists(Path.of(file.split("\\?")[0]))) {
      throw new FileNotFoundException("there is no file " + file
          + ": create it with Claimq.connect(), or set create");
    }
    return patiently("opening", 0,
        () -> Claimq.connect(file, timeout, synchronous));
  }

  void take(List<C> claims) {
    held.addAll(claims);
    waiting.addAll(claims);
  }

  /** One that is not begun, which it is now; null if there is none. */
  C begin() {
    C claim = waiting.poll();
    while (claim != null && claim.isLost()) {
      held.remove(claim);
      claim = waiting.poll();
    }
    return claim;
  }

  /** Gives back what is not begun. */
  void giveBack(Connection db) {
    for (C claim = begin(); claim != null; claim = begin()) {
      claim.attempt(db, "release(?, ?)");
      held.remove(claim);
    }
  }

  /** Waits for its end; an interrupt meanwhile is kept for later. */
  static void join(Thread thread) {
    boolean interrupted = false;
    while (thread.isAlive()) {
      try {
        thread.join();
      } catch (InterruptedException later) {
        interrupted = true;
      }
    }
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  /** The thread, until it is interrupted. */
  void keep(Connection db) {
    long third = lease.toMillis() / 3 + 1;
    try {
      while (true) {
        stops.tryAcquire(Math.min(BEAT_MS, third), TimeUnit.MILLISECONDS);
        if (stopping) {
          giveBack(db);
        }
        for (C claim : gone(db)) {
          renew(db, claim); // says that it is lost
        }
        for (C claim : held) {
          if (!claim.isLost() && claim.ageMs() >= third) {
            renew(db, claim);
          }
        }
      }
    } catch (InterruptedException over) {
      // The work is over.
    }
  }

  private void renew(Connection db, C claim) {
    claim.renewed(); // or not: then it is tried again after another third
    claim.attempt(db, "renew(?, ?, ?)", lease.toMillis());
  }

  /** Those that do not hold any more, and were not settled here. */
  private List<C> gone(Connection db) {
    List<C> all = held.stream().filter(Claim::isOpen).limit(ASKED)
        .collect(Collectors.toList());
    List<C> gone = new ArrayList<>();
    try {
      if (!all.isEmpty() && ended(db, "claims", Json.write(all.stream()
          .map(claim -> claim.claimId).collect(Collectors.toList())))) {
        for (C claim : all) {
          if (ended(db, "claim", claim.claimId) && held.contains(claim)) {
            gone.add(claim);
          }
        }
      }
    } catch (SQLException error) {
      Claimq.log("looking at what is held: " + error.getMessage());
    }
    return gone;
  }

  private static boolean ended(Connection db, String what, String which)
      throws SQLException {
    return ((Number) Claimq.call(db, "SELECT claimq_wait(0, ?, ?)", what,
        which)).intValue() == 1;
  }
}
