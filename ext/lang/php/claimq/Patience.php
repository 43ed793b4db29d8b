<?php
declare(strict_types=1);

/* A lock that lasts, a full disk, a file that is gone. */

/**
 * What a worker does about a lock that lasts longer than its timeout, a full
 * disk, and a file that is not there, or not any more.  A part of ClaimqHolder.
 */
trait ClaimqPatience
{
    private string|false $file = false; // the database, whatever chdir() does
    private ?string $opened = null;     // which file it is

    /**
     * What $f returns.  While it fails for a reason that waiting cures, that is
     * logged, and it is done again after a pause, which grows.  A worker that
     * is stopping does so for the time of grace; then: null.
     */
    protected function patiently(
        string $what,
        callable $f,
        int $graceMs = 0,
    ): mixed {
        for ($pause = 0.1;; $pause = min(2 * $pause, 5)) {
            try {
                return $f();
            } catch (Exception $error) {
                $this->checkFile();
                if (!Claimq::waitingCures($error)) {
                    throw $error;
                }
            }
            $now = microtime(true);
            if ($this->stopping && $now >= ($end ??= $now + $graceMs / 1000)) {
                ($this->log)("$what: {$error->getMessage()}: given up");
                return null;
            }
            ($this->log)("$what: {$error->getMessage()}; again in $pause s");
            do {
                usleep(50000);
            } while (!$this->stopping && microtime(true) < $now + $pause);
        }
    }

    /** A name that was mistyped is not to become a new database. */
    protected function checkThere(): void
    {
        if (!$this->create && !file_exists($this->path)
            && !preg_match('/^(:memory:|file:|$)/', $this->path)) {
            throw new RuntimeException("there is no file {$this->path}: create "
                . 'it with Claimq::open(), or give create: true');
        }
    }

    /** SQLite would go on with a file that nobody else can see. */
    protected function checkFile(): void
    {
        if ($this->opened
            && !in_array($this->identity(), [$this->opened, ''], true)) {
            throw new RuntimeException($this->file . ' was removed or '
                . 'replaced while the worker used it');
        }
    }

    /** Which file it is: null if there is none, '' if that is unknown. */
    private function identity(): ?string
    {
        clearstatcache();
        $found = $this->file ? @stat($this->file) : null;
        if ($found) {
            return "{$found['dev']}:{$found['ino']}";
        }
        return $this->file && !file_exists($this->file) ? null : '';
    }

    /** The file is open. */
    protected function rememberFile(): void
    {
        $this->file = realpath($this->path);
        $this->opened = $this->identity();
    }
}
