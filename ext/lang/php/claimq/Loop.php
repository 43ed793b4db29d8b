<?php
declare(strict_types=1);

/* The loop of a worker, whatever it claims. */

/**
 * What the loops of ClaimqWorker, ClaimqOutbox and ClaimqSession share, for the
 * command line.  A subclass says what is claimed (claim, wait), who
 * handles it (handlerFor), and what the log calls it (scope).
 *
 * One connection claims, waits and settles; it settles a job and takes the next
 * one in the same transaction.  If somebody else has taken a job over (after a
 * pause longer than the lease, or by claimq_revoke), $job->lost() says so, and
 * the loop goes on with the next job.  With `concurrency` n there are n
 * processes, each with such a loop, and one that renews for all of them.
 *
 * A lock that lasts longer than the timeout, or a full disk, does not end it:
 * it says so in the log, waits and goes on, and what it has done is settled
 * then.  A file that was removed or replaced ends it: its jobs are not there
 * any more.  SIGTERM and SIGINT (with the extension pcntl), or stop(), end the
 * loop: what is held and not begun is given back at once, and the job at hand
 * is finished.
 */
abstract class ClaimqLoop extends ClaimqHolder
{
    protected readonly ?Closure $handler;
    private readonly int $concurrency;

    /** The other options are those of ClaimqHolder. */
    public function __construct(
        string $path,
        ?callable $handler,
        int $concurrency = 1,
        mixed ...$options,
    ) {
        parent::__construct($path, ...$options);
        $this->handler = $handler ? $handler(...) : null;
        $this->concurrency = $concurrency;
        if ($concurrency > 1 && !function_exists('pcntl_fork')) {
            throw new RuntimeException('concurrency makes processes: it needs '
                . 'the extension pcntl');
        }
    }

    abstract protected function scope(): string;

    /** What there is now: a list of ClaimqHeld.  $inside: a transaction. */
    abstract protected function claim(SQLite3 $db, bool $inside = false): array;

    /** Wait for half a second at most, or until there is something. */
    abstract protected function wait(SQLite3 $db): void;

    protected function handlerFor(ClaimqHeld $job): callable
    {
        return $this->handler;
    }

    /** Work until stop() or a signal; returns how many jobs were begun. */
    public function run(): int
    {
        return $this->logged(false);
    }

    /**
     * Work until nothing can be claimed now, for tests: what is delayed is not
     * waited for.  Returns how many jobs were begun.
     */
    public function drain(): int
    {
        return $this->logged(true);
    }

    private function logged(bool $drain): int
    {
        $this->checkThere();
        ($this->log)("{$this->owner} starts: {$this->scope()}, concurrency "
            . $this->concurrency);
        $begun = $this->withSignals(fn () => $this->concurrency > 1
            ? $this->workInProcesses($drain) : $this->workHere($drain));
        ($this->log)("{$this->owner} stops: $begun begun");
        return $begun;
    }

    private function withSignals(callable $f): int
    {
        $this->signals = function_exists('pcntl_signal') ? [SIGTERM, SIGINT]
            : [];
        $before = array_map('pcntl_signal_get_handler', $this->signals);
        foreach ($this->signals as $signal) {
            pcntl_async_signals(true);
            pcntl_signal($signal, fn () => $this->stop());
        }
        try {
            return $f();
        } finally {
            array_map('pcntl_signal', $this->signals, $before);
        }
    }

    /**
     * In processes that do the work, until all have ended.  One that dies is
     * replaced, and what it held comes back when its lease ends.
     */
    private function workInProcesses(bool $drain): int
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX,
            STREAM_SOCK_STREAM, 0);
        stream_set_blocking($ours, false);
        $this->startRenewing($this->concurrency);
        $this->pipe = null;             // only the others hold something
        $missing = array_keys($this->pipes);
        $children = $asked = $said = [];
        while ($children !== [] || ($missing !== [] && !$this->stopping)) {
            while ($missing !== [] && !$this->stopping) {
                $pid = pcntl_fork();
                if ($pid < 0) {
                    break;              // there is no room for it yet
                }
                $n = array_shift($missing);
                if ($pid === 0) {
                    $this->workAsChild($drain, $theirs, $n);
                }
                $children[$pid] = $n;
            }
            usleep(20000);
            if ($this->stopping) {
                array_map(fn ($pid) => posix_kill($pid, SIGTERM),
                    array_keys(array_diff_key($children, $asked)));
                $asked = $children;
            }
            foreach ($children as $pid => $n) {
                if (pcntl_waitpid($pid, $status, WNOHANG) === 0) {
                    continue;
                }
                unset($children[$pid]);
                while ($line = fgets($ours)) {
                    $said += json_decode($line, true);
                }
                if (!isset($said[$pid])) {
                    ($this->log)("process $pid has died: another begins");
                    @fwrite($this->pipes[$n], "[[], []]\n"); // not renewed
                    $missing[] = $n;
                } elseif (is_string($said[$pid])) {
                    $this->stop();          // the others as well
                }
            }
        }
        $this->endRenewing();
        foreach (array_filter($said, is_string(...)) as $error) {
            throw new RuntimeException($error);
        }
        return array_sum($said);
    }

    /** Work, say what came of it, and end the process. */
    private function workAsChild(bool $drain, mixed $pipe, int $n): never
    {
        $this->pipe = $this->pipes[$n];
        unset($this->pipes[$n]);
        array_map('fclose', $this->pipes);      // those of the others
        try {
            $said = $this->workHere($drain);
        } catch (Throwable $error) {
            $said = $error->getMessage();
        }
        fwrite($pipe, json_encode([getmypid() => $said],
            JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
        exit(0);
    }

    private function workHere(bool $drain): int
    {
        try {
            $db = $this->patiently('opening', $this->connect(...));
            if ($db === null) {
                return 0;               // it was stopped
            }
            $this->rememberFile();
            if (!$this->pipe) {
                $this->startRenewing();
            }
            return $this->work($db, $drain);
        } finally {
            $this->endRenewing();
        }
    }

    /** Work until the end; returns how many jobs were begun. */
    private function work(SQLite3 $db, bool $drain): int
    {
        for ($begun = 0; !$this->stopping;) {
            $this->checkFile();
            if ($this->held === []) {
                $jobs = $this->patiently('looking for jobs',
                    fn () => $this->look($db, $drain)) ?? [];
                if ($drain && $jobs === []) {
                    break;
                }
            } else {
                $begun++;
                $job = $this->held[0];
                $calls = $job->handle($this->handlerFor($job), $this->log);
                // A job that cannot be settled before the end is given back.
                $jobs = $this->patiently("settling {$job->name()}",
                    fn () => $this->settle($db, $job, $calls), $this->leaseMs)
                    ?? $this->held;
            }
            if ($jobs !== [] || $this->held !== []) {
                $this->hold($jobs);
            }
        }
        return $begun;
    }

    /** Claim; if there is nothing, wait, and claim the next time. */
    private function look(SQLite3 $db, bool $drain): array
    {
        $jobs = $this->claim($db);
        if ($jobs === [] && !$drain) {
            $this->wait($db);
        }
        return $jobs;
    }

    /**
     * Settle a job, and take the next ones with the same commit unless some are
     * left.  Returns what is held then.
     */
    private function settle(SQLite3 $db, ClaimqHeld $job, array $calls): array
    {
        return Claimq::transaction($db, function () use ($db, $job, $calls) {
            $job->settle($calls, $this->log);
            $left = array_slice($this->held, 1);
            while ($left !== [] && $left[0]->lost()) {
                array_shift($left);
            }
            return $left === [] && !$this->stopping ? $this->claim($db, true)
                : $left;
        });
    }
}
