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

    public function __construct(
        public readonly array $row,
        private readonly ClaimqWorker $worker,
        private readonly SQLite3 $db,           // the worker's
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
        return !$this->call('guard(?, ?)');
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

    /** The worker calls a verb.  False: the claim is lost. */
    public function call(string $verb, mixed ...$values): bool
    {
        try {
            Claimq::value($this->db, 'SELECT claimq_' . $verb, $this->claimId,
                $this->leaseToken, ...$values);
            return true;
        } catch (Exception $error) {
            if (Claimq::code($error) !== 'claim_lost') {
                throw $error;
            }
            return false;
        }
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
 * connection of its own, the ClaimqRenewer, renews what is held at a third of
 * the lease.  (Without the extension pcntl nobody does: $job->renew().)  If
 * somebody else has taken a job over (after a pause longer than the lease, or
 * by claimq_revoke), $job->lost() says so, and the worker goes on with the next
 * job.
 *
 * SIGTERM and SIGINT, or stop(), end the loop: what is held and not begun is
 * given back at once, and the job at hand is finished.
 */
final class ClaimqWorker
{
    private const WAIT_MS = 500;        // a signal is seen when it returns

    private bool $stopping = false;
    private bool $handling = false;     // the handler works on the first:
    private array $held = [];
    private int $begun = 0;
    private ?SQLite3 $db = null;
    private ?ClaimqRenewer $renewer = null;
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
        if ($this->handling && $this->renewer !== null) {
            $others = array_splice($this->held, 1);
            $this->renewer->hold($this->held, $others);
        }
    }

    public function stopping(): bool
    {
        return $this->stopping;
    }

    /** Work until stop() or a signal; returns how many jobs were begun. */
    public function run(): int
    {
        $before = [];
        if (function_exists('pcntl_fork')) {
            $this->renewer = new ClaimqRenewer($this->path, $this->leaseMs);
            pcntl_async_signals(true);
            foreach ([SIGTERM, SIGINT] as $signal) {
                $before[$signal] = pcntl_signal_get_handler($signal);
                pcntl_signal($signal, fn () => $this->stop());
            }
        }
        $this->db = Claimq::open($this->path);
        try {
            while (!$this->stopping) {
                $this->hold($this->held === [] ? $this->claimOrWait()
                    : $this->work($this->held[0]));
            }
        } finally {
            try {
                foreach ($this->held as $job) { // also what was not settled
                    $job->call('release(?, ?)');
                }
            } finally {
                $this->held = [];
                $this->db->close();
                $this->renewer?->end();
                array_map('pcntl_signal', array_keys($before), $before);
            }
        }
        return $this->begun;
    }

    /** These are held from now on; the process that renews is told. */
    private function hold(array $jobs): void
    {
        if ($jobs !== [] || $this->held !== []) {
            $this->held = $jobs;
            $this->renewer?->hold($jobs);
        }
    }

    /**
     * Work on the first job that is held; settle it, and take the next one with
     * the same commit.  Returns what is held then.
     */
    private function work(ClaimqJob $job): array
    {
        $this->handling = true;         // from now on stop() gives back
        if ($this->stopping) {
            return $this->held;
        }
        $this->begun++;
        $settle = $this->handle($job);
        $this->handling = false;
        return Claimq::transaction($this->db, function () use ($job, $settle) {
            $job->call(...$settle);
            $others = array_slice($this->held, 1);
            $others = array_filter($others, fn ($other) => !$other->lost());
            return $others === [] && !$this->stopping ? $this->claim()
                : array_values($others);
        });
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

    private function claim(): array
    {
        $rows = Claimq::rows($this->db, 'SELECT * FROM claimq_lane
            WHERE lane=? AND owner=? AND ttl_ms=? AND max_jobs=?
              AND capabilities=? AND partition=?', $this->lane, $this->owner,
            $this->leaseMs, $this->batch, json_encode($this->capabilities),
            $this->partition);
        return array_map(fn ($row) => new ClaimqJob($row, $this, $this->db),
            $rows);
    }

    private function claimOrWait(): array
    {
        $jobs = $this->claim();
        if ($jobs === []) {
            Claimq::value($this->db, "SELECT claimq_wait(?, 'lane', ?,
                'capabilities', ?, 'partition', ?)", self::WAIT_MS, $this->lane,
                json_encode($this->capabilities), $this->partition);
        }
        return $jobs;
    }
}

/** A process that renews what a worker holds, and ends with the worker. */
final class ClaimqRenewer
{
    private mixed $socket;
    private int $pid;

    public function __construct(string $path, private readonly int $leaseMs)
    {
        [$mine, $its] = stream_socket_pair(STREAM_PF_UNIX,
            STREAM_SOCK_STREAM, 0);
        $this->pid = pcntl_fork();
        if ($this->pid < 0) {
            throw new RuntimeException('no process can be made that renews');
        }
        if ($this->pid === 0) {
            try {
                fclose($mine);
                $this->loop($its, $path);
            } finally {
                // It ends here: nothing that the parent has open is closed.
                posix_kill(posix_getpid(), SIGKILL);
            }
        }
        $this->socket = $mine;
    }

    /** Renew these from now on, and give those back: one line of JSON. */
    public function hold(array $jobs, array $back = []): void
    {
        $claim = fn ($job) => [$job->claimId, $job->leaseToken];
        $line = json_encode([array_map($claim, $jobs),
            array_map($claim, $back)]);
        if (@fwrite($this->socket, $line . "\n") === false) {
            throw new RuntimeException('the process that renews has ended');
        }
    }

    public function end(): void
    {
        fclose($this->socket);
        pcntl_waitpid($this->pid, $status);
    }

    /** What the process does until its parent closes the socket or is gone. */
    private function loop(mixed $socket, string $path): void
    {
        pcntl_signal(SIGTERM, SIG_IGN);
        pcntl_signal(SIGINT, SIG_IGN);
        $db = Claimq::open($path);
        $claims = [];
        $beat = $this->leaseMs / 3000;
        for ($due = microtime(true) + $beat;;) {
            $ready = [$socket];
            $none = null;
            $us = (int) max(0, ($due - microtime(true)) * 1e6);
            if (stream_select($ready, $none, $none, 0, $us) > 0) {
                $line = fgets($socket);
                if ($line === false) {
                    return;
                }
                [$claims, $back] = json_decode($line);
                self::call($db, 'release(?, ?)', $back);
            }
            if (microtime(true) >= $due) {
                $due = microtime(true) + $beat;
                self::call($db, 'renew(?, ?, ?)', $claims, $this->leaseMs);
            }
        }
    }

    /**
     * Call a verb for each claim.  One that is lost is found out by the worker;
     * what else fails is tried again the next time, or the lease ends.
     */
    private static function call(
        SQLite3 $db,
        string $verb,
        array $claims,
        int ...$values,
    ): void {
        foreach ($claims as $claim) {
            try {
                Claimq::value($db, 'SELECT claimq_' . $verb,
                    ...[...$claim, ...$values]);
            } catch (Exception) {
                continue;
            }
        }
    }
}
