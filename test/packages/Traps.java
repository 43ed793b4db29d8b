import claimq.Claimq;
import claimq.Job;
import claimq.Worker;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The traps of ext/lang/java/README.md, and the way around each of them.
 *
 * <pre>java Traps NAME DATABASE</pre>
 *
 * Prints what happens, a line for the natural way and a line for the recipe.
 */
public final class Traps {
  static final String CLAIM = "SELECT claim_id, lease_token"
      + " FROM claimq_lane('l', 'w', 30000, 3)";
  static final String DONE = "SELECT claimq_complete(?, ?)";

  static Connection fresh(String file, int jobs) throws SQLException {
    Connection db = Claimq.connect(file);
    db.createStatement().execute("CREATE TABLE orders(id)");
    for (int i = 0; i < jobs; i++) {
      Claimq.call(db, "SELECT claimq_submit('l', 'x')");
    }
    return db;
  }

  static Object count(Connection db, String state) throws SQLException {
    return Claimq.call(db, "SELECT count(*) FROM claimq_job WHERE state=?",
        state);
  }

  /** Completing inside the loop over the rows of the claim. */
  static void rows(String file) throws SQLException {
    Connection db = fresh(file, 6);
    Connection other = Claimq.connect(file);
    String order = "INSERT INTO orders VALUES (1)";
    try (ResultSet rows = db.createStatement().executeQuery(CLAIM)) {
      while (rows.next()) {
        other.createStatement().execute(order);
        Claimq.call(db, DONE, rows.getString(1), rows.getString(2));
      }
      System.out.println("loop: fine");
    } catch (SQLException error) {
      System.out.println("loop: "
          + (error.getMessage().contains("locked") ? "locked" : error));
    }
    List<Map<String, Object>> all = Claimq.rows(db, CLAIM);
    for (Map<String, Object> claim : all) {
      other.createStatement().execute(order);
      Claimq.call(db, DONE, claim.get("claim_id"), claim.get("lease_token"));
    }
    System.out.println("rows: " + all.size());
  }

  /** setMaxRows cuts off what is delivered, not what is claimed. */
  static void maxRows(String file) throws SQLException {
    Connection db = fresh(file, 3);
    int n = 0;
    try (Statement statement = db.createStatement()) {
      statement.setMaxRows(1);
      ResultSet rows = statement.executeQuery(CLAIM);
      while (rows.next()) {
        n++;
      }
    }
    System.out.println("setMaxRows: " + n + " of " + count(db, "active"));
  }

  /** executeUpdate refuses a SELECT; executeBatch complains when it is done. */
  static void update(String file) throws SQLException {
    Connection db = fresh(file, 0);
    try (var statement = db.prepareStatement(
        "SELECT claimq_submit('l', 'x')")) {
      try {
        statement.executeUpdate();
        System.out.println("executeUpdate: fine");
      } catch (SQLException error) {
        System.out.println("executeUpdate: refused " + count(db, "ready"));
      }
      try {
        statement.addBatch();
        statement.executeBatch();
        System.out.println("executeBatch: fine");
      } catch (SQLException error) {
        System.out.println("executeBatch: refused " + count(db, "ready"));
      }
    }
    Claimq.call(db, "SELECT claimq_submit('l', 'x')");
    System.out.println("call: " + count(db, "ready"));
  }

  /** A connection that was opened without leave to load extensions. */
  static void allow(String file) throws SQLException {
    try (Connection db = DriverManager.getConnection("jdbc:sqlite:" + file)) {
      Claimq.load(db);
    } catch (SQLException error) {
      System.out.println("load: " + error.getMessage());
    }
  }

  /**
   * transaction_mode=IMMEDIATE: the driver begins the next transaction when one
   * is committed, and the connection holds the lock while it does nothing.
   */
  static void immediate(String file) throws SQLException {
    fresh(file, 0).close();
    for (String mode : new String[] {"IMMEDIATE", "DEFERRED"}) {
      Properties settings = new Properties();
      settings.setProperty("transaction_mode", mode);
      try (Connection idle = DriverManager.getConnection(
              "jdbc:sqlite:" + file, settings);
          Connection db = Claimq.connect(file)) {
        idle.setAutoCommit(false);
        idle.createStatement().execute("INSERT INTO orders VALUES (1)");
        idle.commit();
        db.createStatement().execute("PRAGMA busy_timeout=0");
        try {
          Claimq.call(db, "SELECT claimq_submit('l', 'x')");
          System.out.println(mode + ": fine");
        } catch (SQLException error) {
          System.out.println(mode + ": "
              + (error.getMessage().contains("locked") ? "locked" : error));
        }
      }
    }
  }

  /** An order and its job, of which every fifth is rolled back. */
  static void order(Connection db, int i) throws Exception {
    if (db.getAutoCommit()) {
      try {
        Claimq.transaction(db, () -> {
          submit(db);
          if (i % 5 == 0) {
            throw new ArithmeticException("something else goes wrong");
          }
          return null;
        });
      } catch (ArithmeticException expected) {
        // This one is rolled back.
      }
    } else {
      submit(db);
      if (i % 5 == 0) {
        db.rollback();
      } else {
        db.commit();
      }
    }
  }

  static void submit(Connection db) throws SQLException {
    Claimq.call(db, "SELECT claimq_submit('l', 'x')");
    try (Statement statement = db.createStatement()) {
      statement.execute("INSERT INTO orders VALUES (1)");
    }
  }

  /** A pool, in autocommit mode and not, used by four threads. */
  static void hikari(String file) throws Exception {
    fresh(file, 0).close();
    for (boolean auto : new boolean[] {true, false}) {
      HikariConfig config = new HikariConfig();
      config.setDataSource(Claimq.dataSource(file));
      config.setAutoCommit(auto);
      config.setMaximumPoolSize(4);
      try (HikariDataSource pool = new HikariDataSource(config)) {
        List<Thread> threads = new ArrayList<>();
        for (int t = 0; t < 4; t++) {
          threads.add(new Thread(() -> {
            for (int i = 0; i < 20; i++) {
              try (Connection db = pool.getConnection()) {
                order(db, i);
              } catch (Exception error) {
                System.out.println(error);
              }
            }
          }));
        }
        for (Thread thread : threads) {
          thread.start();
        }
        for (Thread thread : threads) {
          thread.join();
        }
      }
      try (Connection db = Claimq.connect(file)) {
        System.out.println("orders: "
            + Claimq.call(db, "SELECT count(*) FROM orders") + " jobs: "
            + count(db, "ready"));
      }
    }
  }

  /** A worker with all options; its handler returns or throws anything. */
  static void worker(String file) throws Exception {
    try (Connection db = fresh(file, 0)) {
      for (String payload : List.of("object", "error", "elsewhere", "last")) {
        Claimq.call(db, "SELECT claimq_submit('l', ?, 'capabilities',"
            + " '[\"gpu\"]', 'partition', ?)", payload, payload.length());
      }
      AtomicReference<Worker> self = new AtomicReference<>();
      Worker worker = new Worker(file, "l", job -> {
        switch (job.text()) {
          case "object":
            return List.of(1, 2);
          case "error":
            throw new AssertionError("no luck");
          default:
            self.get().stop();
            return job.isStopping() ? null : "not stopping";
        }
      });
      self.set(worker);
      worker.owner = "me";
      worker.lease = Duration.ofSeconds(60);
      worker.batch = 2;
      worker.capabilities = List.of("cpu", "gpu");
      worker.partitions = new long[] {4, 5, 6};
      System.out.println("begun: " + worker.run());
      show(db);
    }
  }

  /** An interrupt of the handler is a failed attempt, and not the end. */
  static void interrupted(String file) throws Exception {
    try (Connection db = fresh(file, 1)) {
      Claimq.call(db, "SELECT claimq_submit('l', 'x', 'partition', 7)");
      AtomicReference<Worker> self = new AtomicReference<>();
      Worker worker = new Worker(file, "l", job -> {
        Thread.currentThread().interrupt();
        if (job.id == 1) {
          Thread.sleep(1);
        }
        self.get().stop();
        return "done";
      });
      self.set(worker);
      System.out.println("begun: " + worker.run());
      show(db);
    }
  }

  static void show(Connection db) throws SQLException {
    for (Map<String, Object> row : Claimq.rows(db, "SELECT payload || ' ' ||"
        + " state || ' ' || coalesce(result, last_error, settled_owner,"
        + " 'none') AS line FROM claimq_job")) {
      System.out.println(String.valueOf(row.get("line")).split("\n")[0]);
    }
  }

  public static void main(String[] args) throws Exception {
    switch (args[0]) {
      case "rows":
        rows(args[1]);
        break;
      case "maxRows":
        maxRows(args[1]);
        break;
      case "update":
        update(args[1]);
        break;
      case "allow":
        allow(args[1]);
        break;
      case "immediate":
        immediate(args[1]);
        break;
      case "worker":
        worker(args[1]);
        break;
      case "interrupted":
        interrupted(args[1]);
        break;
      default:
        hikari(args[1]);
        break;
    }
  }
}
