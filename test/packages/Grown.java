import claimq.Claimq;
import claimq.Contest;
import claimq.Job;
import claimq.Json;
import claimq.Message;
import claimq.Outbox;
import claimq.Session;
import claimq.Worker;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/**
 * What a worker can do beyond the story of tcl/test/story.tcl.
 *
 * <pre>java Grown NAME DATABASE</pre>
 *
 * Prints what happens, which is compared.
 */
public final class Grown {
  private static final long LIMIT_S = 300;
  private static String file;
  private static Connection db;

  /** A part of the story. */
  private interface Part {
    void tell() throws Exception;
  }

  static void say(Object... words) {
    List<String> all = new ArrayList<>();
    for (Object word : words) {
      all.add(String.valueOf(word));
    }
    System.out.println(String.join(" ", all).split("; valid")[0]);
  }

  static Object ask(String sql, Object... values) throws SQLException {
    return Claimq.call(db, sql, values);
  }

  static String problem(Callable<?> f) {
    try {
      return "fine: " + f.call();
    } catch (Exception error) {
      return error.getMessage().split("\n")[0];
    }
  }

  /** JSON is read as it was written, and nothing else is taken for it. */
  static void json() throws Exception {
    Map<String, Object> all = new java.util.LinkedHashMap<>();
    all.put("", Arrays.asList(null, true, false, "\"\\/\b\f\n\r\t\u0001 é😀"));
    all.put("numbers", List.of(0L, -1L, Long.MAX_VALUE, Long.MIN_VALUE,
        new BigInteger("-99999999999999999999"), 0.5, 1e300));
    all.put("empty", List.of(Map.of(), List.of()));
    say("same:", all.equals(Json.read(Json.write(all))));
    say("sqlite:", ask("SELECT json_valid(?)", Json.write(all)));
    say(Json.read(" { \"a\" : [ 1 , 2.0 ] , \"b\" : \"\\u00e9\\n\" } "));
    say(Json.write(new Object[] {1, (short) 2, 1.5f, List.of("x")}));
    for (String text : List.of("", "{", "[1,]", "{\"a\"}", "01", "1.", "'a'",
        "\"\n\"", "\"\\x\"", "\"\\u12g4\"", "nul", "1 2", "\"a", "NaN", "{1:2}",
        "[1 2]", "\"\\u12")) {
      try {
        say("no error:", text, Json.read(text));
      } catch (IllegalArgumentException expected) {
        // It says where.
      }
    }
    say(problem(() -> Json.read("[1,x]")));
    say(problem(() -> Json.write(Double.NaN)));
    say(problem(() -> Json.write(Map.of("a", new java.util.Date(0)))));
  }

  /** A step is for values that come back as they are. */
  static void steps() throws Exception {
    ask("SELECT claimq_submit('l', 'x', 'backoff_ms', 0)");
    AtomicReference<Worker> self = new AtomicReference<>();
    self.set(new Worker(file, "l", job -> {
      say(problem(() -> job.step("int", () -> 1)));
      say(problem(() -> job.step("none", () -> {
        throw new IllegalStateException("no value");
      })));
      say("pair", job.step("pair", () -> new int[] {1, 2}, Arrays::toString,
          text -> new int[] {text.length()})
          .getClass().getSimpleName());
      say("null", job.step("null", () -> null));
      try (Connection own = Claimq.connect(file)) {
        say(problem(() -> Claimq.transaction(own, () -> {
          job.step(own, "undone", () -> 1L);
          throw new IllegalStateException("undo it");
        })));
      }
      self.get().stop();
      job.waitFor();
      job.waitFor(17);
      return null;
    }));
    self.get().run();
    say(ask("SELECT group_concat(name || '=' || value) FROM claimq_steps"));
    say(ask("SELECT state || ' ' || last_error FROM claimq_job"));
  }

  /** What is submitted, and what the handler gets. */
  static void submit() throws Exception {
    Claimq.submit(db, "l", "text");
    Claimq.submit(db, "l", new byte[] {65, 66});
    Claimq.submit(db, "l", Map.of("n", List.of(1, 2)), "priority", null,
        "headers", Map.of("trace", "7"));
    Claimq.submit(db, "l", 5, "task", "double", "capabilities",
        List.of("gpu"), "max_attempts", 3);
    long last = Claimq.submit(db, "l", null, "capabilities", "[\"gpu\"]",
        "task", "double", "after", List.of(1, 2L), "partition", 9);
    say("last:", last, ask("SELECT state FROM claimq_job WHERE job_id=?",
        last));
    say(problem(() -> Claimq.submit(db, "l", "x", "prority", 1)));
    say(problem(() -> Claimq.submit(db, "l", "x", "priority")));
    Worker worker = new Worker(file, "l", job -> {
      say(job, job.lane, job.task, job.payload.getClass().getSimpleName(),
          job.text(), job.headers());
      return job.id == 3 ? job.json() : null;
    }).task("double", job -> {
      Long number = job.json(text -> (Long) Json.read(text));
      say(job, job.task, number);
      return number == null ? List.of() : 2 * number;
    });
    worker.capabilities = List.of("gpu");
    say("begun:", worker.drain());
    say(ask("SELECT group_concat(coalesce(result, 'none'), ' ')"
        + " FROM claimq_job"));
    say(ask("SELECT capabilities || max_attempts FROM claimq_job"
        + " WHERE job_id=4"));
  }

  /** A worker gets only the tasks that it knows. */
  static void tasks() throws Exception {
    Claimq.submit(db, "l", "a", "task", "old");
    Claimq.submit(db, "l", "b", "task", "new");
    Claimq.submit(db, "l", "c", "backoff_ms", 3_600_000, "backoff_max_ms",
        3_600_000);
    Worker worker = new Worker(file, "l", null).task("old", Job::text);
    say("begun:", worker.drain());
    say(ask("SELECT group_concat(state || ' ' || coalesce(last_error, result,"
        + " 'none'), ', ') FROM claimq_job"));
    say(ask("SELECT group_concat(reason) FROM claimq_why('lane', 'l')"));
    say(problem(() -> new Worker(file, "l", null).drain()));
  }

  /** Earlier lanes go first; what Release gives back has lost no attempt. */
  static void lanes() throws Exception {
    for (String lane : List.of("b", "a", "c", "b", "a")) {
      Claimq.submit(db, lane, lane);
    }
    long later = Claimq.submit(db, "a", "later");
    List<String> seen = new ArrayList<>();
    Worker worker = new Worker(file, List.of("a", "b"), job -> {
      if (job.id == later) {
        throw new Job.Release(Duration.ofDays(1));
      }
      if (seen.size() == 2 && job.lane.equals("b")) {
        Claimq.submit(db, "a", "more");
        seen.add("give back");
        throw new Job.Release();
      }
      seen.add(job.text());
      return null;
    });
    say("begun:", worker.drain());
    say(seen);
    say(ask("SELECT group_concat(lane || ' ' || state || ' ' || attempt_index"
        + " || ' ' || attempts, ', ') FROM claimq_job"
        + " WHERE state<>'completed'"));
    say("again:", worker.drain());
  }

  /** A worker makes no database; its own writes may be lost in a power cut. */
  static void files() throws Exception {
    String other = file + ".other";
    Worker none = new Worker(other, "l", job -> null);
    say(problem(none::drain).replace(other, "FILE"),
        Files.exists(Path.of(other)));
    none.create = true;
    say(none.drain(), Files.exists(Path.of(other)));
    for (String end : List.of("", "-wal", "-shm")) {
      Files.deleteIfExists(Path.of(other + end));
    }
    none.synchronous = "off";
    say(problem(none::drain));
    try (Statement statement = db.createStatement()) {
      statement.execute("CREATE TABLE seen(x)");
      statement.execute("CREATE TRIGGER see AFTER UPDATE ON claimq_job"
          + " BEGIN INSERT INTO seen SELECT synchronous"
          + " FROM pragma_synchronous; END");
    }
    say("connect:", ask("PRAGMA synchronous"));
    for (String how : List.of("normal", "full")) {
      Claimq.submit(db, "l", "x");
      Worker worker = new Worker(file, "l", job -> null);
      worker.synchronous = how;
      worker.drain();
      say(how + ":", ask("SELECT max(x) || ' ' || min(x) FROM seen"));
    }
  }

  /** What the logger gets. */
  static void logged() throws Exception {
    List<String> lines = new ArrayList<>();
    Logger logger = Logger.getLogger("claimq");
    logger.setUseParentHandlers(false);
    logger.addHandler(new Handler() {
      @Override
      public void publish(LogRecord record) {
        lines.add(record.getLevel() + " " + record.getMessage());
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    });
    Claimq.submit(db, "l", "x", "max_attempts", 1);
    Worker worker = new Worker(file, List.of("l", "m"), job -> {
      throw new IllegalStateException("no luck", new Exception("because"));
    });
    worker.owner = "me";
    worker.drain();
    say(lines.get(0));
    say(lines.get(1).split("\n")[0]);
    say(lines.get(1).contains("at Grown."),
        lines.get(1).contains("Caused by: java.lang.Exception: because"));
    say(lines.get(2), lines.size());
    say(ask("SELECT error_class FROM claimq_letter"));
  }

  static void await(CountDownLatch latch) throws Exception {
    if (!latch.await(LIMIT_S, TimeUnit.SECONDS)) {
      throw new IllegalStateException("it takes too long");
    }
  }

  /** Three handlers at once, which wait for each other; then the rest. */
  static void concurrency() throws Exception {
    for (int i = 0; i < 20; i++) {
      Claimq.submit(db, "l", "x");
    }
    CountDownLatch all = new CountDownLatch(3);
    Set<Long> seen = ConcurrentHashMap.newKeySet();
    Worker worker = new Worker(file, "l", job -> {
      all.countDown();
      await(all);
      return seen.add(job.id);
    });
    worker.concurrency = 3;
    say("begun:", worker.drain(), seen.size());
    say(ask("SELECT group_concat(DISTINCT state || result || attempts)"
        + " FROM claimq_job"));
    worker = new Worker(file, "l", job -> {
      throw new Error("the end");
    });
    Claimq.submit(db, "l", "x", "max_attempts", 1);
    worker.concurrency = 2;
    say("an error is no end:", worker.drain());
  }

  /** A stop gives back what waits, also while two are at work. */
  static void stopping() throws Exception {
    for (int i = 0; i < 6; i++) {
      Claimq.submit(db, "l", "x");
    }
    CountDownLatch begun = new CountDownLatch(2);
    CountDownLatch end = new CountDownLatch(1);
    Worker worker = new Worker(file, "l", job -> {
      begun.countDown();
      await(end);
      return job.isStopping();
    });
    worker.concurrency = 2;
    worker.batch = 5;
    worker.lease = Duration.ofMinutes(10);
    FutureTask<Long> run = new FutureTask<>(worker::run);
    new Thread(run).start();
    await(begun);
    worker.stop();
    until("SELECT count(*)=4 FROM claimq_job WHERE state='ready'");
    end.countDown();
    say("begun:", run.get(LIMIT_S, TimeUnit.SECONDS));
    say(ask("SELECT group_concat(state || ' ' || coalesce(result, 'none'),"
        + " ', ') FROM (SELECT * FROM claimq_job ORDER BY state)"));
  }

  static void until(Callable<Boolean> done) throws Exception {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_S);
    while (!done.call()) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("it never happens");
      }
      Thread.sleep(5);
    }
  }

  static void until(String sql) throws Exception {
    until(() -> ((Number) ask(sql)).intValue() != 0);
  }

  /** A cancel is seen long before the lease is renewed. */
  static void cancel() throws Exception {
    try (Statement statement = db.createStatement()) {
      statement.execute("CREATE TABLE lost(id)");
    }
    long first = Claimq.submit(db, "l", "x");
    long second = Claimq.submit(db, "l", "x");
    CountDownLatch begun = new CountDownLatch(2);
    Worker worker = new Worker(file, "l", job -> {
      begun.countDown();
      while (!job.isLost()) {
        Thread.sleep(10);
      }
      try (Connection own = Claimq.connect(file);
          Statement statement = own.createStatement()) {
        statement.execute("INSERT INTO lost VALUES (" + job.id + ")");
      }
      return "done";
    });
    worker.concurrency = 2;
    worker.lease = Duration.ofMinutes(10);
    FutureTask<Long> run = new FutureTask<>(worker::drain);
    new Thread(run).start();
    await(begun);
    say(ask("SELECT claimq_cancel(?, 'force', 1)", first));
    until("SELECT count(*) FROM lost");
    say(ask("SELECT group_concat(id) FROM lost"));
    say(ask("SELECT claimq_cancel(?, 'force', 1)", second));
    say("begun:", run.get(LIMIT_S, TimeUnit.SECONDS));
    say(ask("SELECT group_concat(id) FROM lost"));
    say(ask("SELECT group_concat(state || ' ' || coalesce(result, 'none'))"
        + " FROM claimq_job"));
  }

  /** What the handler has completed itself is not lost. */
  static void own() throws Exception {
    long job = Claimq.submit(db, "l", "x");
    Claimq.submit(db, "other", "x");
    AtomicReference<Job> first = new AtomicReference<>();
    CountDownLatch end = new CountDownLatch(1);
    Worker worker = new Worker(file, List.of("l", "other"), one -> {
      if (one.id == job) {
        try (Connection own = Claimq.connect(file)) {
          one.complete(own);
        }
        first.set(one);
        await(end);
      } else {
        until(() -> first.get() != null);
        ask("SELECT claimq_cancel(?, 'force', 1)", one.id);
        until(one::isLost);      // so the first was looked at as well
        end.countDown();
      }
      return null;
    });
    worker.concurrency = 2;
    worker.lease = Duration.ofMinutes(10);
    say("begun:", worker.drain(), first.get().isLost());
    say(ask("SELECT group_concat(state) FROM claimq_job"));
  }

  static List<String> texts(Iterable<Message> messages) {
    List<String> all = new ArrayList<>();
    messages.forEach(message -> all.add(message.text()));
    return all;
  }

  /** Batches of a partition; what is done does not come again. */
  static void outbox() throws Exception {
    ask("SELECT claimq_queue('q', 2, 'backoff_ms', 0)");
    for (String text : List.of("a", "b", "c", "d")) {
      ask("SELECT claimq_publish('q', ?, 'partition', 1, 'headers', ?)", text,
          "{\"n\":1}");
    }
    List<String> seen = new ArrayList<>();
    Outbox outbox = new Outbox(file, "q", batch -> {
      seen.add(batch + " " + texts(batch));
      for (Message message : batch) {
        if (message.text().equals("b") && seen.size() == 1) {
          throw new Job.Retry("not yet", Duration.ZERO);
        }
        if (message.text().equals("c") && seen.size() == 2) {
          throw new Job.Release();
        }
        if (message.text().equals("d")) {
          throw new Job.Reject("poison " + message.headers());
        }
        batch.done(message);
      }
    });
    outbox.max = 3;
    say("begun:", outbox.drain());
    seen.forEach(Grown::say);
    say(ask("SELECT group_concat(scope || ' ' || reason || ' ' || payload)"
        + " FROM claimq_letter"));
    say(ask("SELECT processed_seq || ' ' || last_seq FROM claimq_partition"
        + " WHERE partition=1"));
    ask("SELECT claimq_publish('q', 'e')");
    outbox.partition = 1;
    say("elsewhere:", outbox.drain());
    outbox.partition = 0;
    say("here:", outbox.drain());
  }

  /** The batches of each session in order; what fails keeps its place. */
  static void sessions() throws Exception {
    for (String text : List.of("hi", "you", "there")) {
      ask("SELECT claimq_enqueue('chat-1', ?, 'slot_policy', ?)", text,
          text.equals("there") ? "exclusive" : "join");
    }
    ask("SELECT claimq_enqueue('chat-2', 'hey')");
    List<String> seen = new ArrayList<>();
    AtomicReference<Session> self = new AtomicReference<>();
    Session session = new Session(file, turn -> {
      seen.add(turn + " " + texts(turn));
      if (seen.size() == 1) {
        throw new Job.Retry("again", Duration.ZERO);
      }
      if (turn.text().equals("hey")) {
        self.get().stop();
        throw new IllegalStateException("no luck");
      }
    });
    self.set(session);
    say("begun:", session.run());
    seen.forEach(Grown::say);
    say(ask("SELECT session || ' ' || payload || ' ' || (last_error LIKE"
        + " '%no luck%') || ' ' || (available_at_ms > enqueued_at_ms)"
        + " FROM claimq_batch"));
    ask("SELECT claimq_enqueue('chat-3', 'x')");
    session = new Session(file, turn -> say(turn));
    session.session = "chat-4";
    say("elsewhere:", session.drain());
    session.session = "chat-3";
    say("here:", session.drain());
  }

  /** One holds it, the other waits; what is taken away is lost. */
  @SuppressWarnings("try")
  static void contest() throws Exception {
    try (Contest one = new Contest(file, "leader");
        Contest other = new Contest(file, "leader")) {
      one.lease = Duration.ofMinutes(10);
      say("one:", one.isLost(), one.acquire(), one.isLost(),
          one.fencingToken());
      one.guard(db);
      say("other:", other.acquire(Duration.ZERO), other.isLost());
      FutureTask<Boolean> wait = new FutureTask<>(other::acquire);
      new Thread(wait).start();
      one.close();
      say("other:", wait.get(LIMIT_S, TimeUnit.SECONDS), other.fencingToken());
      say("one:", one.acquire(Duration.ofMillis(1)));
      ask("SELECT claimq_release(claim_id, lease_token) FROM claimq_contest"
          + " WHERE label='leader' AND owner=?", other.owner);
      until(() -> other.isLost());
      say("lost:", problem(() -> {
        other.guard(db);
        return "held";
      }).contains("claim_lost"));
      say("one:", one.acquire(), one.fencingToken());
      FutureTask<Boolean> stopped = new FutureTask<>(other::acquire);
      new Thread(stopped).start();
      other.stop();
      say("stopped:", stopped.get(LIMIT_S, TimeUnit.SECONDS));
    }
    say("free:", new Contest(file, "leader").acquire(Duration.ZERO));
  }

  public static void main(String[] args) throws Exception {
    Map<String, Part> parts = new HashMap<>();
    parts.put("json", Grown::json);
    parts.put("steps", Grown::steps);
    parts.put("submit", Grown::submit);
    parts.put("tasks", Grown::tasks);
    parts.put("lanes", Grown::lanes);
    parts.put("files", Grown::files);
    parts.put("log", Grown::logged);
    parts.put("concurrency", Grown::concurrency);
    parts.put("stop", Grown::stopping);
    parts.put("cancel", Grown::cancel);
    parts.put("own", Grown::own);
    parts.put("outbox", Grown::outbox);
    parts.put("session", Grown::sessions);
    parts.put("contest", Grown::contest);
    file = args[1];
    db = Claimq.connect(file);
    parts.get(args[0]).tell();
    db.close();
  }
}
