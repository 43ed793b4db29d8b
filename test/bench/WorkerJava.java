import claimq.Claimq;
import claimq.Worker;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.nio.file.Path;
import java.sql.Connection;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jobrunr.configuration.JobRunr;
import org.jobrunr.scheduling.BackgroundJob;
import org.jobrunr.server.BackgroundJobServerConfiguration;
import org.jobrunr.storage.sql.sqlite.SqLiteStorageProvider;

/**
 * The Worker of claimq and the server of JobRunr, both over sqlite-jdbc.
 *
 * <pre>java WorkerJava QUEUE DIR JOBS CONCURRENCY MS VERSION</pre>
 *
 * QUEUE is claimq or jobrunr; VERSION is that of claimq. The rest is that of
 * worker_python.py, where it is explained.
 */
public final class WorkerJava {
  private static final Set<String> seen = ConcurrentHashMap.newKeySet();
  private static CountDownLatch left;
  private static long sleep;
  private static volatile double[] start;
  private static volatile double[] end;

  private static double[] now() {
    return new double[] {System.nanoTime() / 1e9, ProcessHandle.current().info()
        .totalCpuDuration().get().toNanos() / 1e9};
  }

  private static synchronized void begin() {
    if (start == null) {
      start = now();
    }
  }

  public static void handle(String payload) throws InterruptedException {
    if (start == null) {
      begin();
    }
    if (sleep > 0) {
      Thread.sleep(sleep);
    }
    if (!seen.add(payload)) {
      throw new IllegalStateException(payload);
    }
    left.countDown();
    if (left.getCount() == 0) {
      end = now();
    }
  }

  private static String claimq(String file, List<String> payloads, int n,
      String version) throws Exception {
    try (Connection db = Claimq.connect(file)) {
      Claimq.transaction(db, () -> {
        for (String payload : payloads) {
          Claimq.submit(db, "q", payload);
        }
        return null;
      });
    }
    Worker worker = new Worker(file, "q", job -> {
      handle(job.text());
      return null;
    });
    worker.concurrency = n;
    Logger.getLogger("claimq").setLevel(Level.OFF);
    worker.drain();
    return version;
  }

  private static String jobrunr(String file, List<String> payloads, int n)
      throws Exception {
    HikariConfig pool = new HikariConfig();
    pool.setJdbcUrl("jdbc:sqlite:" + file
        + "?journal_mode=WAL&synchronous=NORMAL&busy_timeout=30000"
        + "&transaction_mode=IMMEDIATE");
    try (HikariDataSource source = new HikariDataSource(pool)) {
      JobRunr.configure().useStorageProvider(new SqLiteStorageProvider(source))
          .useBackgroundJobServer(BackgroundJobServerConfiguration
              .usingStandardBackgroundJobServerConfiguration()
              .andWorkerCount(n).andPollIntervalInSeconds(5), false)
          .initialize();
      BackgroundJob.enqueue(payloads.stream(), payload -> handle(payload));
      JobRunr.getBackgroundJobServer().start();
      left.await(600, TimeUnit.SECONDS);
      JobRunr.destroy();
    }
    return JobRunr.class.getPackage().getImplementationVersion();
  }

  public static void main(String[] args) throws Exception {
    int jobs = Integer.parseInt(args[2]);
    int n = Integer.parseInt(args[3]);
    sleep = Long.parseLong(args[4]);
    left = new CountDownLatch(jobs);
    List<String> payloads = IntStream.range(0, jobs)
        .mapToObj(i -> String.format("job %046d", i))
        .collect(Collectors.toList());
    String file = Path.of(args[1], "queue.db").toString();
    String version = args[0].equals("claimq")
        ? claimq(file, payloads, n, args[5]) : jobrunr(file, payloads, n);
    if (seen.size() != jobs) {
      throw new IllegalStateException("seen: " + seen.size());
    }
    System.out.printf("{\"version\":\"%s\",\"seconds\":%f,\"cpu\":%f}%n",
        version, end[0] - start[0], end[1] - start[1]);
    System.exit(0);
  }
}
