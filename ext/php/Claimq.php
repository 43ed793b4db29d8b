<?php
declare(strict_types=1);

/*
 * claimq: queues of leased, fenced work in ordinary SQLite tables.
 *
 *     require 'Claimq.php';
 *
 *     $db = Claimq::open('app.db');
 *     Claimq::transaction($db, function () use ($db) {    // both, or neither
 *         $db->exec('INSERT INTO orders VALUES (42)');
 *         Claimq::value($db, "SELECT claimq_submit('mail', ?)", 'order 42');
 *     });
 *
 *     (new ClaimqWorker('app.db', 'mail', function (ClaimqJob $job) {
 *         mail('you@example.com', 'Order', $job->payload);
 *     }))->run();
 *
 * This one file is the package.  The library, claimq.so, is where make install
 * or the Debian package has put it.
 *
 * SQLite3::query() and SQLite3Stmt::execute() run a statement twice: once to
 * see whether it works, and again when its first row is fetched.  A submit
 * makes two jobs, a claim takes twice as much and delivers half.  value() and
 * rows() run a statement once.
 */

final class Claimq
{
    public const VERSION = '@VERSION@';

    /**
     * Load claimq into a connection of SQLite3, or of Pdo\Sqlite (PHP 8.4).
     * SQLite3 loads only from the folder that sqlite3.extension_dir names.
     */
    public static function load(
        SQLite3|PDO $db,
        string $name = 'claimq.so',
    ): void {
        if ($db instanceof SQLite3) {
            if ((string) ini_get('sqlite3.extension_dir') === '') {
                throw new RuntimeException(
                    'SQLite3 loads no extension unless php.ini has '
                    . 'sqlite3.extension_dir=FOLDER, the one of claimq.so; '
                    . 'or: php -d sqlite3.extension_dir=FOLDER ...');
            }
            if (!@$db->loadExtension($name)) {
                throw new RuntimeException('there is no ' . $name . ' in '
                    . ini_get('sqlite3.extension_dir')
                    . ' (sqlite3.extension_dir), or it cannot be loaded');
            }
        } elseif (method_exists($db, 'loadExtension')) {
            $db->loadExtension($name);
        } else {
            throw new RuntimeException('PDO loads extensions from PHP 8.4 on, '
                . 'as Pdo\Sqlite; use SQLite3');
        }
    }

    /**
     * Open a database for claimq: errors as exceptions, the extension loaded,
     * WAL, a busy timeout (ms), and claimq's tables, which are created when
     * they are missing.
     */
    public static function open(string $path, int $timeoutMs = 30000): SQLite3
    {
        $db = new SQLite3($path);
        $db->enableExceptions(true);
        $db->busyTimeout($timeoutMs);
        self::load($db);
        self::useWal($db, microtime(true) + $timeoutMs / 1000);
        self::value($db, 'SELECT claimq_init()');
        return $db;
    }

    /**
     * SQLite does not wait for the lock that a change of the journal mode
     * needs, and several processes may open a new database at once.
     */
    private static function useWal(SQLite3 $db, float $until): void
    {
        while (true) {
            try {
                $db->querySingle('PRAGMA journal_mode=wal');
                return;
            } catch (Exception $error) {
                if (!str_contains($error->getMessage(), 'locked')
                    || microtime(true) > $until) {
                    throw $error;
                }
                usleep(10000);
            }
        }
    }

    /** A value as a literal of SQL. */
    public static function quote(null|int|float|bool|string $value): string
    {
        if ($value === null) {
            return 'NULL';
        }
        if (!is_string($value)) {
            return is_float($value) ? var_export($value, true)
                : (string) (int) $value;
        }
        if (!str_contains($value, "\0")) {
            return "'" . str_replace("'", "''", $value) . "'";
        }
        return "CAST(x'" . bin2hex($value) . "' AS TEXT)";
    }

    /** SQL with a literal in the place of each "?". */
    private static function fill(string $sql, array $values): string
    {
        $parts = explode('?', $sql);
        if (count($parts) !== count($values) + 1) {
            throw new InvalidArgumentException('as many values as "?"');
        }
        $out = array_shift($parts);
        foreach ($values as $i => $value) {
            $out .= self::quote($value) . $parts[$i];
        }
        return $out;
    }

    /** Run a SELECT once, and return the first value of its first row. */
    public static function value(
        SQLite3 $db,
        string $sql,
        mixed ...$values,
    ): mixed {
        return $db->querySingle(self::fill($sql, $values));
    }

    /**
     * Run a SELECT once, and return all its rows: for claims.  The rows go
     * through a temporary table, because reading that twice does no harm.
     */
    public static function rows(
        SQLite3 $db,
        string $sql,
        mixed ...$values,
    ): array {
        $sql = self::fill($sql, $values);
        $db->exec('CREATE TEMP TABLE claimq_rows AS ' . $sql);
        try {
            $result = $db->query(
                'SELECT * FROM temp.claimq_rows ORDER BY rowid');
            $rows = [];
            while ($row = $result->fetchArray(SQLITE3_ASSOC)) {
                $rows[] = $row;
            }
            $result->finalize();
        } finally {
            $db->exec('DROP TABLE temp.claimq_rows');
        }
        return $rows;
    }

    /** BEGIN IMMEDIATE, $f(), COMMIT; ROLLBACK if $f throws. */
    public static function transaction(SQLite3 $db, callable $f): mixed
    {
        $db->exec('BEGIN IMMEDIATE');
        try {
            $result = $f();
            $db->exec('COMMIT');
            return $result;
        } catch (Throwable $error) {
            try {
                $db->exec('ROLLBACK');
            } catch (Exception) {
                // SQLite has rolled it back already.
            }
            throw $error;
        }
    }

    /**
     * The code of an error of claimq, such as "claim_lost", whatever has been
     * wrapped around it; null for all other errors.
     */
    public static function code(Throwable|string $error): ?string
    {
        $text = is_string($error) ? $error : $error->getMessage();
        return preg_match('/\bclaimq: ([a-z_]+): /', $text, $found) ? $found[1]
            : null;
    }
}

/** Thrown by a handler: try again after $delayMs, or the job's backoff. */
final class ClaimqRetry extends Exception
{
    public function __construct(
        string $reason = 'retry',
        public readonly ?int $delayMs = null,
    ) {
        parent::__construct($reason);
    }
}

/** Thrown by a handler: never try again; the job becomes a dead letter. */
final class ClaimqReject extends Exception
{
}

/** What a handler gets.  $row has all columns of the claim. */
final class ClaimqJob
{
    public readonly int $id;
    public readonly mixed $payload;
    public readonly int $attempt;               // 0 is the first
    public readonly string $claimId;
    public readonly string $leaseToken;
    private bool $lost = false;

    public function __construct(
        public readonly array $row,
        private ClaimqWorker $worker,
    ) {
        $this->id = $row['job_id'];
        $this->payload = $row['payload'];
        $this->attempt = $row['attempt_index'];
        $this->claimId = $row['claim_id'];
        $this->leaseToken = $row['lease_token'];
    }

    /**
     * True when somebody else has taken the job over: the handler should stop,
     * nothing that it still does counts.
     */
    public function lost(): bool
    {
        $this->worker->listen();
        return $this->lost;
    }

    public function setLost(): void
    {
        $this->lost = true;
    }

    /** True when the worker is to end, and waits for this handler. */
    public function stopping(): bool
    {
        return $this->worker->stopping();
    }

    /**
     * Complete it on the handler's own connection, inside a transaction with
     * the handler's writes: both happen, or neither.
     */
    public function complete(SQLite3 $db): void
    {
        Claimq::value($db, 'SELECT claimq_complete(?, ?)', $this->claimId,
            $this->leaseToken);
    }

    /** Needed only where there is no pcntl, and nobody else renews. */
    public function renew(SQLite3 $db, int $leaseMs): void
    {
        Claimq::value($db, 'SELECT claimq_renew(?, ?, ?)', $this->claimId,
            $this->leaseToken, $leaseMs);
    }
}

/**
 * The loop of a worker, whole, for the command line.
 *
 * What the handler does decides what becomes of the job: it returns (completed,
 * with what it returns as the result), throws a ClaimqReject (to the dead
 * letters), or throws anything else (retried later; a ClaimqRetry says when).
 *
 * One connection claims, waits and settles; it settles a job and takes the next
 * one in the same transaction.  PHP has no threads: a child process with a
 * connection of its own renews what is held at a third of the lease, and ends
 * with its parent.  (Without the extension pcntl nobody does: $job->renew().)
 * If somebody else has taken a job over (after a pause longer than the lease,
 * or by claimq_revoke), $job->lost() says so, and the worker goes on with the
 * next job.
 *
 * SIGTERM and SIGINT, or stop(), end the loop: what is held and not begun is
 * given back at once, and the job at hand is finished.
 */
final class ClaimqWorker
{
    private const WAIT_MS = 500;        // a signal is seen when it returns

    private bool $stopping = false;
    private bool $handling = false;
    private int $begun = 0;
    private array $waiting = [];        // held, and not begun
    private ?ClaimqJob $current = null;
    private ?SQLite3 $db = null;
    private mixed $child = null;        // a socket to the process that renews
    private int $childPid = 0;
    private readonly string $owner;
    private readonly Closure $handler;

    public function __construct(
        private readonly string $path,
        private readonly string $lane,
        callable $handler,
        ?string $owner = null,
        private readonly int $leaseMs = 30000,
        private readonly int $batch = 1,
        private readonly array $capabilities = [],
        private readonly int $partition = 0,
    ) {
        $this->handler = $handler(...);
        $this->owner = $owner ?? implode(':', [gethostname(), getmypid(),
            bin2hex(random_bytes(3))]);
    }

    /** End run() soon.  May be called from a signal handler. */
    public function stop(): void
    {
        $this->stopping = true;
        if ($this->handling) {
            $this->giveBack();          // the connection is free meanwhile
        }
    }

    public function stopping(): bool
    {
        return $this->stopping;
    }

    /** Work until stop() or a signal; returns how many jobs were begun. */
    public function run(): int
    {
        $pcntl = function_exists('pcntl_fork');
        if ($pcntl) {
            $this->fork();
            pcntl_async_signals(true);
            foreach ([SIGTERM, SIGINT] as $signal) {
                pcntl_signal($signal, fn () => $this->stop());
            }
        }
        $this->db = Claimq::open($this->path);
        try {
            while (!$this->stopping) {
                $this->step();
            }
        } finally {
            if ($this->current !== null) {      // it could not be settled
                $this->take([$this->current]);
            }
            $this->giveBack();
            $this->db->close();
            if ($pcntl) {
                fclose($this->child);
                pcntl_waitpid($this->childPid, $status);
                pcntl_signal(SIGTERM, SIG_DFL);
                pcntl_signal(SIGINT, SIG_DFL);
            }
        }
        return $this->begun;
    }

    /** Work on the next job that is held, or take some, or wait for one. */
    private function step(): void
    {
        $job = $this->begin();
        if ($job !== null) {
            $this->handling = true;
            $outcome = $this->handle($job);
            $this->handling = false;
            $this->settle($job, ...$outcome);
            return;
        }
        $jobs = $this->claim();
        $this->take($jobs);
        if ($jobs === []) {
            Claimq::value($this->db, "SELECT claimq_wait(?, 'lane', ?,
                'capabilities', ?, 'partition', ?)", self::WAIT_MS, $this->lane,
                json_encode($this->capabilities), $this->partition);
        }
    }

    private function claim(): array
    {
        $rows = Claimq::rows($this->db, 'SELECT * FROM claimq_lane
            WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=?
              AND capabilities=? AND partition=?', $this->lane, $this->owner,
            $this->leaseMs, $this->batch, json_encode($this->capabilities),
            $this->partition);
        return array_map(fn ($row) => new ClaimqJob($row, $this), $rows);
    }

    /** These are held from now on, and nothing is at hand. */
    private function take(array $jobs): void
    {
        $this->current = null;
        array_push($this->waiting, ...$jobs);
        $this->tell();
    }

    /** The next job, which is at hand then; null if there is none. */
    private function begin(): ?ClaimqJob
    {
        while (!$this->stopping && $this->waiting !== []) {
            $job = array_shift($this->waiting);
            if (!$job->lost()) {
                $this->begun++;
                return $this->current = $job;
            }
        }
        return null;
    }

    /** Call the handler; returns the verb that settles, and its arguments. */
    private function handle(ClaimqJob $job): array
    {
        try {
            $result = ($this->handler)($job);
            if ($result !== null && !is_scalar($result)) {
                $result = json_encode($result, JSON_THROW_ON_ERROR);
            }
            return ["complete(?, ?, 'result', ?)", $result];
        } catch (ClaimqReject $error) {
            return ['reject(?, ?, ?)', $error->getMessage()];
        } catch (Throwable $error) {
            return ["retry(?, ?, ?, 'delay_ms', ?)",
                $error->getMessage() ?: $error::class,
                $error instanceof ClaimqRetry ? $error->delayMs : null];
        }
    }

    /** Settle the job, and take the next one with the same commit. */
    private function settle(
        ClaimqJob $job,
        string $verb,
        mixed ...$values,
    ): void {
        $settle = function () use ($job, $verb, $values) {
            if (!$job->lost()) {
                self::call($this->db, $job, $verb, ...$values);
            }
            $last = $this->waiting === [] && !$this->stopping;
            return $last ? $this->claim() : [];
        };
        $this->take(Claimq::transaction($this->db, $settle));
    }

    /** A lost claim is remembered, and is no error. */
    private static function call(
        SQLite3 $db,
        ClaimqJob $job,
        string $verb,
        mixed ...$values,
    ): void {
        try {
            Claimq::value($db, 'SELECT claimq_' . $verb, $job->claimId,
                $job->leaseToken, ...$values);
        } catch (Exception $error) {
            if (Claimq::code($error) !== 'claim_lost') {
                throw $error;
            }
            $job->setLost();
        }
    }

    private function giveBack(): void
    {
        $jobs = $this->waiting;
        $this->waiting = [];
        foreach ($jobs as $job) {
            try {
                self::call($this->db, $job, 'release(?, ?)');
            } catch (Exception) {
                // Its lease will end.
            }
        }
        $this->tell();
    }

    private function held(): array
    {
        return array_filter([$this->current, ...$this->waiting]);
    }

    /** Tell the child what is held; one line of JSON. */
    private function tell(): void
    {
        if ($this->child !== null) {
            $claims = [];
            foreach ($this->held() as $job) {
                $claims[] = [$job->claimId, $job->leaseToken];
            }
            fwrite($this->child, json_encode($claims) . "\n");
        }
    }

    /** Hear from the child which claims are lost. */
    public function listen(): void
    {
        while ($this->child !== null
            && ($line = fgets($this->child)) !== false) {
            foreach ($this->held() as $job) {
                if ($job->claimId === trim($line)) {
                    $job->setLost();
                }
            }
        }
    }

    private function fork(): void
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX,
            STREAM_SOCK_STREAM, 0);
        $pid = pcntl_fork();
        if ($pid < 0) {
            throw new RuntimeException('no process can be made that renews');
        }
        if ($pid === 0) {
            fclose($mine);
            try {
                $this->renew($its);
            } finally {
                // Nothing of the parent is ended here.
                posix_kill(posix_getpid(), SIGKILL);
            }
        }
        fclose($its);
        stream_set_blocking($mine, false);
        $this->child = $mine;
        $this->childPid = $pid;
    }

    /**
     * The child: renews, until the parent closes the socket or is gone.  What
     * fails for another reason than a lost claim is tried again at the next
     * beat, or the lease ends.
     */
    private function renew(mixed $parent): void
    {
        pcntl_signal(SIGTERM, SIG_IGN);
        pcntl_signal(SIGINT, SIG_IGN);
        stream_set_blocking($parent, false);
        $db = Claimq::open($this->path);
        $claims = [];
        $due = microtime(true) + $this->leaseMs / 3000;
        while (!feof($parent)) {
            $read = [$parent];
            $none = null;
            $us = (int) max(0, ($due - microtime(true)) * 1e6);
            @stream_select($read, $none, $none, intdiv($us, 1000000),
                $us % 1000000);
            while (($line = fgets($parent)) !== false) {
                $claims = json_decode($line);
            }
            if (microtime(true) < $due) {
                continue;
            }
            $due = microtime(true) + $this->leaseMs / 3000;
            foreach ($claims as [$id, $token]) {
                try {
                    Claimq::value($db, 'SELECT claimq_renew(?, ?, ?)', $id,
                        $token, $this->leaseMs);
                } catch (Exception $error) {
                    if (Claimq::code($error) === 'claim_lost') {
                        fwrite($parent, $id . "\n");
                    }
                }
            }
        }
    }
}
