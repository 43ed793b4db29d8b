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
            throw new InvalidArgumentException(
                'give as many values as there are "?" in the SQL');
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
    public readonly array $claim;               // its id and its token

    public function __construct(
        public readonly array $row,
        private readonly SQLite3 $db,           // the worker's
        private readonly Closure $stopping,
    ) {
        $this->id = $row['job_id'];
        $this->payload = $row['payload'];
        $this->attempt = $row['attempt_index'];
        $this->claim = [$row['claim_id'], $row['lease_token']];
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
        return ($this->stopping)();
    }

    /**
     * Complete it on the handler's own connection, inside a transaction with
     * the handler's writes: both happen, or neither.
     */
    public function complete(SQLite3 $db): void
    {
        Claimq::value($db, 'SELECT claimq_complete(?, ?)', ...$this->claim);
    }

    /** Call the handler; returns the verb that settles, and its arguments. */
    public function handle(callable $handler): array
    {
        try {
            $result = $handler($this);
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

    /** Call a verb on the worker's connection.  False: the claim is lost. */
    public function call(string $verb, mixed ...$values): bool
    {
        try {
            Claimq::value($this->db, 'SELECT claimq_' . $verb, ...$this->claim,
                ...$values);
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
 * one in the same transaction.  PHP has no threads: a second process renews
 * what is held at a third of the lease.  If somebody else has taken a job over
 * (after a pause longer than the lease, or by claimq_revoke), $job->lost() says
 * so, and the worker goes on with the next job.  SIGTERM and SIGINT (with the
 * extension pcntl), or stop(), end the loop: what is held and not begun is
 * given back at once, and the job at hand is finished.
 */
final class ClaimqWorker
{
    private const CLAIM = 'SELECT * FROM claimq_lane(?, ?, ?, ?)
        WHERE capabilities=? AND partition=?';
    private const WAIT = "SELECT claimq_wait(500, 'lane', ?, 'capabilities', ?,
        'partition', ?)";

    private bool $stopping = false;
    private array $held = [];           // the handler works on the first
    private mixed $renewer = null;      // a pipe to the process that renews
    private readonly array $claim;      // the values of CLAIM
    private readonly array $wait;       // the values of WAIT
    private readonly Closure $handler;

    public function __construct(
        private readonly string $path,
        string $lane,
        callable $handler,
        ?string $owner = null,
        private readonly int $leaseMs = 30000,
        int $batch = 1,
        array $capabilities = [],
        int $partition = 0,
    ) {
        $this->handler = $handler(...);
        $owner ??= implode(':', [gethostname(), getmypid(),
            bin2hex(random_bytes(3))]);
        $can = [json_encode($capabilities), $partition];
        $this->claim = [$lane, $owner, $leaseMs, $batch, ...$can];
        $this->wait = [$lane, ...$can];
    }

    /** End run() soon.  May be called from a signal handler. */
    public function stop(): void
    {
        $this->stopping = true;
        $this->hold($this->held, 1);
    }

    /** Work until stop() or a signal; returns how many jobs were begun. */
    public function run(): int
    {
        $db = Claimq::open($this->path);
        $signals = function_exists('pcntl_signal') ? [SIGTERM, SIGINT] : [];
        $before = array_map('pcntl_signal_get_handler', $signals);
        $process = $this->start($signals);
        foreach ($signals as $signal) {
            pcntl_async_signals(true);
            pcntl_signal($signal, fn () => $this->stop());
            pcntl_sigprocmask(SIG_UNBLOCK, [$signal]);
        }
        try {
            for ($begun = 0; !$this->stopping;) {
                if ($this->held !== []) {
                    $begun++;
                    $this->hold($this->work($db, $this->held[0]));
                } elseif (($jobs = $this->claim($db)) !== []) {
                    $this->hold($jobs);
                } else {
                    Claimq::value($db, self::WAIT, ...$this->wait);
                }
            }
            return $begun;
        } finally {
            array_map('pcntl_signal', $signals, $before);
            $this->hold($this->held, 0);
            $this->held = [];
            $this->renewer = null;      // closed: the process ends
            proc_close($process);
        }
    }

    private function claim(SQLite3 $db): array
    {
        $stopping = fn () => $this->stopping;
        return array_map(fn ($row) => new ClaimqJob($row, $db, $stopping),
            Claimq::rows($db, self::CLAIM, ...$this->claim));
    }

    /**
     * Work on the first job that is held; settle it, and take the next ones
     * with the same commit unless some are left.  Returns what is held then.
     */
    private function work(SQLite3 $db, ClaimqJob $job): array
    {
        $outcome = $job->handle($this->handler);
        return Claimq::transaction($db, function () use ($db, $job, $outcome) {
            $job->call(...$outcome);
            $left = array_slice($this->held, 1);
            while ($left !== [] && $left[0]->lost()) {
                array_shift($left);
            }
            return $left === [] && !$this->stopping ? $this->claim($db) : $left;
        });
    }

    /** Hold these jobs: the first are renewed, those after them given back. */
    private function hold(array $jobs, int $keep = PHP_INT_MAX): void
    {
        $this->held = $jobs;
        $claims = array_column($jobs, 'claim');
        $line = json_encode([array_slice($claims, 0, $keep),
            array_slice($claims, $keep)]);
        if ($this->renewer && !@fwrite($this->renewer, $line . "\n")) {
            throw new RuntimeException('the process that renews has ended');
        }
    }

    /** Start the process that renews.  The signals stay blocked there. */
    private function start(array $signals): mixed
    {
        if ($signals !== []) {
            pcntl_sigprocmask(SIG_BLOCK, $signals);
        }
        $folder = 'sqlite3.extension_dir=' . ini_get('sqlite3.extension_dir');
        $code = 'require $argv[1]; ClaimqWorker::renew($argv[2], +$argv[3]);';
        $process = proc_open([PHP_BINARY, '-d', $folder, '-r', $code, '--',
            __FILE__, $this->path, (string) $this->leaseMs], [['pipe', 'r']],
            $pipes) ?: throw new RuntimeException('no process that renews');
        $this->renewer = $pipes[0];
        return $process;
    }

    /** What that process does, until the worker closes the pipe or is gone. */
    public static function renew(string $path, int $leaseMs): void
    {
        $db = Claimq::open($path);
        $claims = [[], []];             // to be renewed, and given back
        $calls = ["SELECT claimq_renew(?, ?, $leaseMs)",
            'SELECT claimq_release(?, ?)'];
        $due = microtime(true) + $leaseMs / 3000;
        while (!feof(STDIN)) {
            $ready = [STDIN];
            $us = (int) max(0, ($due - microtime(true)) * 1e6);
            $heard = (int) stream_select($ready, $none, $none, 0, $us);
            if ($heard) {
                $claims = json_decode(fgets(STDIN) ?: '[[], []]');
            } else {
                $due = microtime(true) + $leaseMs / 3000;
            }
            foreach ($claims[$heard] as $claim) {
                try {
                    Claimq::value($db, $calls[$heard], ...$claim);
                } catch (Exception) {
                    continue;           // tried again, or the lease ends
                }
            }
        }
    }
}
