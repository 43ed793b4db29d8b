package claimq;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.concurrent.Callable;

/**
 * What a worker does about a lock that lasts longer than its timeout, a full
 * disk, and a file that is not there any more.
 */
abstract class Patient {
  volatile boolean stopping;
  private Path path;
  private Object opened; // which file it is

  Patient() {}

  /**
   * What f returns.  While it fails for a reason that waiting cures, that is
   * logged, and it is done again after a pause, which grows.  A worker that is
   * stopping does so for the time of grace; then: null.
   */
  <T> T patiently(String what, long graceMs, Callable<T> f)
      throws Exception {
    Long end = null;
    for (long pause = 100;; pause = Math.min(2 * pause, 5000)) {
      long now = System.nanoTime() / 1_000_000;
      try {
        return f.call();
      } catch (Exception error) {
        checkFile();
        if (!Claimq.waitingCures(error)) {
          throw error;
        }
        now = System.nanoTime() / 1_000_000;
        if (stopping) {
          end = end == null ? now + graceMs : end;
          if (now >= end) {
            Claimq.log(what + ": " + error.getMessage() + ": given up");
            return null;
          }
        }
        Claimq.log(what + ": " + error.getMessage() + "; again in " + pause
            + " ms");
      }
      do {
        Thread.sleep(50);
      } while (!stopping && System.nanoTime() / 1_000_000 < now + pause);
    }
  }

  /** Which file it is; null if that is unknown. */
  private Object identity() throws IOException {
    return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
  }

  /** SQLite would go on with a file that nobody else can see. */
  void checkFile() throws IOException {
    try {
      if (opened == null || opened.equals(identity())) {
        return;
      }
    } catch (NoSuchFileException gone) {
      // It was removed.
    } catch (IOException unknown) {
      return; // it may be there
    }
    throw new IOException(path
        + " was removed or replaced while the worker used it");
  }

  /** The file is open. */
  void rememberFile(String file) throws IOException {
    path = Path.of(file).toAbsolutePath();
    opened = Files.exists(path) ? identity() : null;
  }
}
