package claimq;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.logging.Logger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * claimq: queues of leased, fenced work in ordinary SQLite tables.
 *
 * <pre>{@code
 * try (Connection db = Claimq.connect("app.db")) {
 *   Claimq.transaction(db, () -> {           // the order and its job: both
 *     Claimq.call(db, "SELECT claimq_submit('mail', ?)", "order 42");
 *     ...
 *   });
 * }
 * new Worker("app.db", "mail", job -> send(job.text())).run();
 * }</pre>
 *
 * The jar holds the extension for each platform and unpacks the right one.
 * The driver is org.xerial:sqlite-jdbc.  Everything else is SQL: the manual is
 * ext/doc/manual.md of the source archive.
 */
public final class Claimq {
  public static final String VERSION = "@VERSION@";

  private static final Pattern CODE =
      Pattern.compile("\\bclaimq: ([a-z_]+): ");
  private static Path unpacked;

  private Claimq() {}

  /** The file of the extension for this platform, unpacked once. */
  public static synchronized Path path() {
    if (unpacked == null) {
      String os = System.getProperty("os.name").toLowerCase(Locale.ROOT);
      boolean windows = os.contains("win") && !os.contains("darwin");
      String system = windows ? "windows" : os.contains("mac") ? "macos" : os;
      String name = windows ? "claimq.dll"
          : system.equals("macos") ? "claimq.dylib" : "claimq.so";
      unpacked = unpack(system + "-" + machine(system) + musl(system), name);
    }
    return unpacked;
  }

  private static String machine(String system) {
    switch (System.getProperty("os.arch")) {
      case "amd64":
        return "x86_64";
      case "aarch64":
        return system.equals("linux") ? "aarch64" : "arm64";
      case "arm":
        return "armhf";
      default:
        return System.getProperty("os.arch");
    }
  }

  /** Linux with musl instead of glibc, as Alpine is: its ldd says so. */
  private static String musl(String system) {
    try {
      return system.equals("linux")
          && new String(Files.readAllBytes(Path.of("/usr/bin/ldd")))
              .contains("musl") ? "-musl" : "";
    } catch (IOException error) {
      return "";
    }
  }

  private static Path unpack(String target, String name) {
    String resource = "native/" + target + "/" + name;
    try (InputStream in = Claimq.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw new UnsupportedOperationException("claimq has no library for "
            + target + ": build claimq.c of the source archive");
      }
      Path folder = Files.createTempDirectory("claimq");
      Path file = folder.resolve(name);
      Files.copy(in, file);
      folder.toFile().deleteOnExit();
      file.toFile().deleteOnExit();
      return file;
    } catch (IOException error) {
      throw new IllegalStateException("claimq cannot be unpacked", error);
    }
  }

  /**
   * Loads claimq into a connection, which must have been opened with the
   * property enable_load_extension=true.  Call it first: a connection that is
   * not in autocommit mode is put into it for the time of loading (which
   * commits), because claims cannot wait for each other in a connection that
   * was in a transaction when claimq was loaded.
   */
  public static void load(Connection db) throws SQLException {
    boolean auto = db.getAutoCommit();
    if (!auto) {
      db.setAutoCommit(true);
    }
    try {
      call(db, "SELECT load_extension(?)", path().toString());
    } catch (SQLException error) {
      if (String.valueOf(error.getMessage()).contains("not authorized")) {
        throw new SQLException("open the database with the property "
            + "enable_load_extension=true, so that claimq can be loaded",
            error);
      }
      throw error;
    } finally {
      if (!auto) {
        db.setAutoCommit(false);
      }
    }
  }

  /**
   * Opens a database for claimq: the extension loaded, WAL, a busy timeout of
   * 30 s, autocommit, and claimq's tables, which are created when they are
   * missing.
   */
  public static Connection connect(String file) throws SQLException {
    return connect(file, Duration.ofSeconds(30), "full");
  }

  static Connection connect(String file, Duration timeout, String synchronous)
      throws SQLException {
    Properties settings = new Properties();
    settings.setProperty("synchronous", synchronous);
    settings.setProperty("enable_load_extension", "true");
    settings.setProperty("busy_timeout", Long.toString(timeout.toMillis()));
    Connection db = DriverManager.getConnection("jdbc:sqlite:" + file,
        settings);
    try {
      load(db);
      useWal(db, timeout);
      call(db, "SELECT claimq_init()");
      return db;
    } catch (SQLException | RuntimeException error) {
      db.close();
      throw error;
    }
  }

  /**
   * SQLite does not wait for the lock that a change of the journal mode needs,
   * and several processes may open a new database at once.
   */
  private static void useWal(Connection db, Duration timeout)
      throws SQLException {
    long until = System.nanoTime() + timeout.toNanos();
    while (true) {
      try {
        call(db, "PRAGMA journal_mode=wal");
        return;
      } catch (SQLException error) {
        if (!String.valueOf(error.getMessage()).contains("locked")
            || System.nanoTime() > until) {
          throw error;
        }
        try {
          Thread.sleep(10);
        } catch (InterruptedException interrupt) {
          Thread.currentThread().interrupt();
          throw error;
        }
      }
    }
  }

  /** For pools: a source whose connections are those of connect(). */
  public static DataSource dataSource(String file) {
    return new Source(file);
  }

  /** Runs a SELECT and returns the first column of its first row, or null. */
  public static Object call(Connection db, String sql, Object... values)
      throws SQLException {
    List<Map<String, Object>> rows = rows(db, sql, values);
    return rows.isEmpty() ? null : rows.get(0).values().iterator().next();
  }

  /** Runs a SELECT and returns all its rows, by the names of the columns. */
  public static List<Map<String, Object>> rows(Connection db, String sql,
      Object... values) throws SQLException {
    List<Map<String, Object>> all = new ArrayList<>();
    try (PreparedStatement statement = db.prepareStatement(sql)) {
      for (int i = 0; i < values.length; i++) {
        statement.setObject(i + 1, values[i]);
      }
      try (ResultSet rows = statement.executeQuery()) {
        ResultSetMetaData about = rows.getMetaData();
        while (rows.next()) {
          Map<String, Object> row = new LinkedHashMap<>();
          for (int i = 1; i <= about.getColumnCount(); i++) {
            row.put(about.getColumnName(i), rows.getObject(i));
          }
          all.add(row);
        }
      }
    }
    return all;
  }

  /**
   * Submits a job; returns its id.  Text and bytes are stored as they are,
   * anything else as JSON (see Json).  The options are those of claimq_submit,
   * names and values in turn, where lists and maps become JSON and null is not
   * given; "task" names the handler that it is for (Worker.task).
   */
  public static Long submit(Connection db, String lane, Object payload,
      Object... options) throws SQLException {
    if (options.length % 2 != 0) {
      throw new IllegalArgumentException("options are names and values");
    }
    Map<Object, Object> given = new LinkedHashMap<>();
    for (int i = 0; i < options.length; i += 2) {
      given.put(options[i], options[i + 1]);
    }
    Object task = given.remove("task");
    if (task != null) {
      Object some = given.get("capabilities");
      List<Object> all = new ArrayList<>(some == null ? List.of()
          : (Collection<?>) (some instanceof String ? Json.read((String) some)
              : some));
      all.add(Job.TASK + task);
      given.put("capabilities", all);
    }
    List<Object> values = new ArrayList<>();
    values.add(lane);
    values.add(payload instanceof String || payload instanceof byte[] ? payload
        : Json.write(payload));
    given.forEach((name, value) -> {
      if (value != null) {
        values.add(name);
        values.add(storable(value));
      }
    });
    Number id = (Number) call(db, "SELECT claimq_submit(?"
        + ", ?".repeat(values.size() - 1) + ")", values.toArray());
    return id == null ? null : id.longValue();
  }

  /** As SQLite stores it: lists and maps as JSON, other objects as text. */
  static Object storable(Object value) {
    if (value instanceof Map || value instanceof Iterable
        || value instanceof Object[]) {
      return Json.write(value);
    }
    return value == null || value instanceof byte[] || value instanceof Number
        || value instanceof Boolean ? value : value.toString();
  }

  /**
   * BEGIN IMMEDIATE, f, COMMIT; ROLLBACK if f throws.  The connection must be
   * in autocommit mode.
   */
  public static <T> T transaction(Connection db, Callable<T> f)
      throws Exception {
    gate(db, 1);
    try {
      return locked(db, f);
    } finally {
      gate(db, 0);
    }
  }

  /**
   * Before a transaction (1) it waits for its turn among claimq's writers, so
   * that it need not sleep in SQLite; after it (0) the next one is woken.  It is
   * only a hint, which a connection without claimq does not have: no error
   * matters.
   */
  private static void gate(Connection db, int enter) {
    try {
      call(db, "SELECT claimq__gate(?)", enter);
    } catch (SQLException withoutIt) {
      // SQLite's own lock decides.
    }
  }

  private static <T> T locked(Connection db, Callable<T> f) throws Exception {
    try (Statement statement = db.createStatement()) {
      statement.execute("BEGIN IMMEDIATE");
      try {
        T result = f.call();
        statement.execute("COMMIT");
        return result;
      } catch (Throwable error) {
        try {
          statement.execute("ROLLBACK");
        } catch (SQLException already) {
          error.addSuppressed(already);
        }
        throw error;
      }
    }
  }

  /**
   * The code of an error of claimq, such as "claim_lost", whatever has been
   * wrapped around it; null for all other errors.
   */
  public static String code(Throwable error) {
    for (; error != null; error = error.getCause()) {
      Matcher found = CODE.matcher(String.valueOf(error.getMessage()));
      if (found.find()) {
        return found.group(1);
      }
    }
    return null;
  }

  /** Is it an error that may be gone after a while: a lock, a full disk? */
  static boolean waitingCures(Throwable error) {
    // BUSY, LOCKED, NOMEM, IOERR, FULL, PROTOCOL; beyond 255: which of them.
    return error instanceof SQLException && code(error) == null
        && Set.of(5, 6, 7, 10, 13, 15).contains(
            ((SQLException) error).getErrorCode() & 0xff);
  }

  /** An error here must not hide the one that has ended the work. */
  static void close(Connection db) {
    try {
      db.close();
    } catch (SQLException error) {
      log("closing: " + error.getMessage());
    }
  }

  static void say(String line) {
    System.getLogger("claimq").log(System.Logger.Level.INFO, line);
  }

  static void log(String line) {
    System.getLogger("claimq").log(System.Logger.Level.WARNING, line);
  }

  /** With the trace of the error, whose own text may throw. */
  static void log(String line, Throwable error) {
    try {
      StringWriter trace = new StringWriter();
      error.printStackTrace(new PrintWriter(trace, true));
      log(line + "\n" + trace.toString().stripTrailing());
    } catch (Throwable worse) {
      log(line);
    }
  }

  private static final class Source implements DataSource {
    private final String file;

    Source(String file) {
      this.file = file;
    }

    @Override
    public Connection getConnection() throws SQLException {
      return connect(file);
    }

    @Override
    public Connection getConnection(String user, String password)
        throws SQLException {
      return connect(file);
    }

    @Override
    public PrintWriter getLogWriter() {
      return null;
    }

    @Override
    public void setLogWriter(PrintWriter out) {}

    @Override
    public void setLoginTimeout(int seconds) {}

    @Override
    public int getLoginTimeout() {
      return 0;
    }

    @Override
    public Logger getParentLogger() throws SQLFeatureNotSupportedException {
      throw new SQLFeatureNotSupportedException();
    }

    @Override
    public <T> T unwrap(Class<T> type) throws SQLException {
      throw new SQLException("this is no wrapper");
    }

    @Override
    public boolean isWrapperFor(Class<?> type) {
      return false;
    }
  }
}
