package claimq;

import java.sql.Connection;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/**
 * The loop of a worker: {@code new Worker("app.db", "mail", handler).run()}.
 * What the handler returns is the result of the job; if it throws, the job is
 * tried again later (a Job.Retry says when), is given back (Job.Release) or is
 * a dead letter (Job.Reject).  job.isLost() says that somebody else has taken
 * the job over: stop, nothing counts any more.  What it survives, and how it
 * ends: see Loop, which has the loop itself.
 */
public final class Worker extends Loop<Job> {
  /** What is done with a job; the value becomes its result. */
  public interface Handler {
    Object handle(Job job) throws Exception;
  }

  private final List<String> lanes;
  private final Handler handler;
  private final Map<String, Handler> tasks = new LinkedHashMap<>();
  /** How many jobs are taken at a time, ahead of being worked on. */
  public int batch = 1;
  /** What this worker can do. */
  public List<String> capabilities = List.of();
  /** The partitions to take jobs from; none named: all. */
  public long[] partitions = {};

  /** With a handler for jobs without a task; null if all of them have one. */
  public Worker(String file, String lane, Handler handler) {
    this(file, List.of(lane), handler);
  }

  /** For several lanes: those that come first are asked first, each time. */
  public Worker(String file, List<String> lanes, Handler handler) {
    super(file);
    this.lanes = List.copyOf(lanes);
    this.handler = handler;
  }

  /**
   * Has a handler for the jobs that were submitted with this task.  Jobs with
   * other tasks are left to other workers.
   */
  public Worker task(String name, Handler handler) {
    tasks.put(name, handler);
    return this;
  }

  @Override
  public String toString() {
    return "worker of " + String.join(", ", lanes);
  }

  @Override
  List<Job> claim(Connection db) throws Exception {
    if (handler == null && tasks.isEmpty()) {
      throw new IllegalStateException("a worker needs a handler, or tasks");
    }
    List<Job> jobs = List.of();
    for (int i = 0; i < lanes.size() && jobs.isEmpty(); i++) {
      jobs = Claimq.rows(db, "SELECT * FROM claimq_lane WHERE lane=? AND"
          + " owner=? AND lease_ms=? AND max=? AND capabilities=? AND"
          + " partition=?", lanes.get(i), owner, lease.toMillis(), batch,
          abilities(), partition()).stream()
          .map(row -> new Job(row, () -> stopping))
          .collect(Collectors.toList());
    }
    return jobs;
  }

  @Override
  void await(Connection db, int ms) throws Exception {
    Claimq.call(db, "SELECT claimq_wait(?, 'lanes', ?, 'capabilities', ?,"
        + " 'partition', ?)", ms, Json.write(lanes), abilities(), partition());
  }

  @Override
  void handle(Job job, Connection db) {
    job.handle(tasks.getOrDefault(job.task, handler == null ? Worker::nobody
        : handler), db, lease);
  }

  private static Object nobody(Job job) throws Exception {
    String why = "no handler for jobs without a task";
    Claimq.log(job + ": " + why);
    throw new Job.Retry(why, null);
  }

  /** Its capabilities, and a task that it has a handler for is one. */
  private String abilities() {
    List<String> all = new ArrayList<>(capabilities);
    tasks.keySet().forEach(name -> all.add(Job.TASK + name));
    return Json.write(all);
  }

  /** As claimq takes it: a JSON array; NULL: all of them. */
  private String partition() {
    return partitions.length == 0 ? null : Arrays.toString(partitions);
  }
}
