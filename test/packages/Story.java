import claimq.Claimq;
import claimq.Job;
import claimq.Worker;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BooleanSupplier;

/**
 * The story of tcl/test/story.tcl, with the jar.
 *
 * <pre>
 * java Story calls DATABASE
 * java Story worker DATABASE LANE LEASE_MS BATCH
 * </pre>
 */
public final class Story {
  static void calls(Connection db) throws Exception {
    System.out.println("version " + Claimq.call(db,
        "SELECT claimq_version()"));
    System.out.println("journal " + Claimq.call(db, "PRAGMA journal_mode"));

    // A stale worker is refused, and recognised.
    String claim = "SELECT * FROM claimq_lane('stale', ?, 1000)"
        + " WHERE now_ms=?";
    Claimq.call(db, "SELECT claimq_submit('stale', 'x', 'now_ms', 1000)");
    Map<String, Object> mine = Claimq.rows(db, claim, "a", 1000).get(0);
    Claimq.rows(db, claim, "b", 2000);
    try {
      Claimq.call(db, "SELECT claimq_complete(?, ?)", mine.get("claim_id"),
          mine.get("lease_token"));
    } catch (SQLException error) {
      System.out.println("stale " + Claimq.code(error));
    }
    try {
      Claimq.call(db, "SELECT nonsense()");
    } catch (SQLException error) {
      System.out.println("other "
          + (Claimq.code(error) == null ? "none" : "?"));
    }

    // An order and its job, in one transaction.
    Statement statement = db.createStatement();
    statement.execute("CREATE TABLE orders(id)");
    for (int i = 1; i <= 2; i++) {
      int number = i;
      try {
        Claimq.transaction(db, () -> {
          Claimq.call(db, "SELECT claimq_submit('orders', ?)",
              number == 1 ? "x" : "y");
          statement.execute("INSERT INTO orders VALUES (" + number + ")");
          if (number == 1) {
            throw new ArithmeticException("something else goes wrong");
          }
          return null;
        });
      } catch (ArithmeticException expected) {
        // The first order is rolled back.
      }
    }
  }

  static void write(String name) throws Exception {
    Path aside = Path.of(name + ".tmp");
    Files.writeString(aside, "");
    Files.move(aside, Path.of(name));
  }

  static void waitUntil(BooleanSupplier done) throws Exception {
    while (!done.getAsBoolean()) {
      Thread.sleep(10);
    }
  }

  /** What has a text that throws. */
  static final class Odd extends RuntimeException {
    @Override
    public String getMessage() {
      throw new IllegalStateException("no text");
    }
  }

  static void odd(long attempt) throws Exception {
    if (attempt == 0) {
      throw new Job.Retry("negative", Duration.ofMillis(-1));
    }
    if (attempt == 1) {
      throw new Job.Retry("half", Duration.ofNanos(500_000));
    }
    if (attempt == 2) {
      throw new Odd();
    }
  }

  private static Connection own;

  static Connection connection(String file) throws Exception {
    if (own == null) {
      own = Claimq.connect(file);
    }
    return own;
  }

  static void note(String name, String word) throws Exception {
    Files.writeString(Path.of(name + ".log"), word + "\n",
        StandardOpenOption.CREATE, StandardOpenOption.APPEND);
  }

  static void steps(String file, Job job, String name) throws Exception {
    Map<String, Long> first = job.step("one", () -> {
      note(name, "one");
      return Map.of("n", 1L);
    });
    if (job.attempt == 0) {
      throw new Job.Retry("again", Duration.ofMillis(1));
    }
    job.sleep(1);
    long child = job.<Long>step("child", () -> {
      note(name, "child");
      return ((Number) Claimq.call(connection(file),
          "SELECT claimq_submit(?, 'count')", job.row.get("lane"))).longValue();
    });
    job.waitFor(child);
    job.step("two", () -> {
      note(name, "two");
      return first.get("n") + 1;
    });
  }

  private static final String MOST = System.getenv("STORY_FUNCTIONS");
  private static int functions;

  static long agent(Job job, String name, int n) throws Exception {
    long total = 0;
    for (int i = 0; i < n; i++) {
      long value = i;
      total += job.<Long>step("s" + i, () -> {
        functions++;
        waitUntil(() -> MOST == null           // else until it is killed
            || functions <= Integer.parseInt(MOST));
        note(name, "s" + value);
        return value;
      });
    }
    return total;
  }

  static Object fan(String file, Job job, String lane, int n)
      throws Exception {
    List<Long> children = job.step("children", () -> {
      List<Long> ids = new ArrayList<>();
      for (int i = 1; i <= n; i++) {
        ids.add(Claimq.submit(connection(file), lane, "part " + i));
      }
      return ids;
    });
    job.waitFor(children.stream().mapToLong(Long::longValue).toArray());
    return Claimq.call(connection(file),
        "SELECT sum(result) FROM claimq_job WHERE lane=?", lane);
  }

  static Object ask(String file, Job job, long id) throws Exception {
    job.waitFor(id);
    return Claimq.call(connection(file),
        "SELECT result FROM claimq_job WHERE job_id=?", id);
  }

  static Object handle(String file, Job job) throws Exception {
    String[] words = job.text().split(" ");
    switch (words[0]) {
      case "odd":
        odd(job.attempt);
        break;
      case "never":
        throw new Job.Retry("never", Duration.ofSeconds(Long.MAX_VALUE));
      case "what":
        return new Object() {
          @Override
          public String toString() {
            throw new IllegalStateException("no text");
          }
        };
      case "count":
        try (Statement statement = connection(file).createStatement()) {
          statement.execute("INSERT INTO done VALUES (" + job.id + ")");
        }
        break;
      case "fail":
        if (job.attempt == 0) {
          throw new IllegalStateException("no luck");
        }
        break;
      case "later":
        if (job.attempt == 0) {
          throw new Job.Retry("later", Duration.ofMillis(1));
        }
        break;
      case "reject":
        throw new Job.Reject("poison");
      case "hold":
        write(words[1] + ".begun");
        waitUntil(() -> Files.exists(Path.of(words[1] + ".go")));
        break;
      case "steps":
        steps(file, job, words[1]);
        break;
      case "agent":
        return agent(job, words[1], Integer.parseInt(words[2]));
      case "fan":
        return fan(file, job, words[1], Integer.parseInt(words[2]));
      case "part":
        return words[1];
      case "ask":
        return ask(file, job, Long.parseLong(words[1]));
      case "lost":
        write(words[1] + ".begun");
        waitUntil(job::isLost);
        write(words[1] + ".lost");
        break;
      default:
        break;
    }
    return "did " + job.text();
  }

  public static void main(String[] args) throws Exception {
    if (args[0].equals("calls")) {
      calls(connection(args[1]));
      return;
    }
    Worker worker = new Worker(args[1], args[2], job -> handle(args[1], job));
    worker.lease = Duration.ofMillis(Long.parseLong(args[3]));
    worker.batch = Integer.parseInt(args[4]);
    String concurrency = System.getenv("STORY_CONCURRENCY");
    if (concurrency != null) {
      worker.concurrency = Integer.parseInt(concurrency);
    }
    String timeout = System.getenv("STORY_TIMEOUT_MS");
    if (timeout != null) {
      worker.timeout = Duration.ofMillis(Long.parseLong(timeout));
    }
    System.out.println("begun " + worker.run());
  }
}
