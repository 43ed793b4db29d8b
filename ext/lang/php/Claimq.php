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
 *         Claimq::submit($db, 'mail', ['order' => 42], maxAttempts: 3);
 *     });
 *
 *     (new ClaimqWorker('app.db', 'mail', function (ClaimqJob $job) {
 *         mail('you@example.com', 'Order', $job->json()['order']);
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
    public const TASK = 'task:'; // a job that needs this has the name behind it

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

    /**
     * Put a job into a lane; returns its id.  A string is stored as it is, all
     * else as JSON.  The options are those of claimq_submit (maxAttempts or
     * max_attempts), with arrays as JSON, null: not given; and `task`, the name
     * under which a worker has its handler.
     */
    public static function submit(
        SQLite3 $db,
        string $lane,
        mixed $payload,
        ?string $task = null,
        mixed ...$options,
    ): ?int {
        $json = fn ($value) => json_encode($value, JSON_THROW_ON_ERROR);
        if ($task !== null) {
            $needs = $options['capabilities'] ?? [];
            $needs = is_string($needs) ? json_decode($needs) : $needs;
            $options['capabilities'] = [...$needs, self::TASK . $task];
        }
        $values = [$lane, is_string($payload) ? $payload : $json($payload)];
        foreach ($options as $name => $value) {
            if ($value !== null) {
                $values[] = strtolower(preg_replace('/[A-Z]/', '_$0',
                    (string) $name));
                $value = $value === [] && $name === 'headers' ? '{}' : $value;
                $values[] = is_array($value) || is_object($value)
                    ? $json($value) : $value;
            }
        }
        return self::value($db, 'SELECT claimq_submit(?'
            . str_repeat(', ?', count($values) - 1) . ')', ...$values);
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

    /**
     * The same, for a SELECT of at most one row, and at a fraction of the cost:
     * a temporary table that comes and goes makes SQLite prepare all statements
     * anew.  In a transaction only: the error of a commit would not be seen.
     */
    public static function row(
        SQLite3 $db,
        string $sql,
        mixed ...$values,
    ): array {
        $row = $db->querySingle(self::fill($sql, $values), true);
        return $row === [] ? [] : [$row];
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

    /** Is it an error that may be gone after a while: a lock, a full disk? */
    public static function waitingCures(Exception $error): bool
    {
        $cured = '/\bdatabase (table |schema )?is locked|disk is full'
            . '|disk I\/O error|locking protocol|out of memory/';
        return self::code($error) === null
            && preg_match($cured, $error->getMessage()) === 1;
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
        public readonly null|int|float $delayMs = null,
    ) {
        parent::__construct($reason);
    }
}

/**
 * Thrown by a handler: give it back without using an attempt, and let nobody
 * have it before $delayMs are over.
 */
final class ClaimqRelease extends Exception
{
    public function __construct(
        public readonly null|int|float $delayMs = null,
    ) {
        parent::__construct('release');
    }
}

/** Thrown by a handler: never try again; the job becomes a dead letter. */
final class ClaimqReject extends Exception
{
}

/**
 * Thrown by ClaimqJob::sleep() and waitFor(): a handler that catches it throws
 * it on.  The job is given back; its handler begins anew when it comes back.
 */
final class ClaimqPause extends Exception
{
    public readonly array $calls;

    public function __construct(string $option, int|string $value)
    {
        parent::__construct("$option $value");
        $this->calls = [['release(?, ?, ?, ?)', $option, $value],
            ['retry(?, ?, ?)', "cannot wait: $option $value"]];
    }
}

/** A row of a claim: what is asked of its payload. */
trait ClaimqPayload
{
    /** The payload, parsed. */
    public function json(): mixed
    {
        return json_decode((string) $this->row['payload'], true, 512,
            JSON_THROW_ON_ERROR);
    }

    /** What was given as `headers`; empty if there are none. */
    public function headers(): array
    {
        return json_decode($this->row['headers'] ?? '{}', true, 512,
            JSON_THROW_ON_ERROR);
    }
}

/**
 * What a loop holds by one claim, and hands to a handler.
 *
 * A handler is somebody else's program: it may return and throw anything.  None
 * of that may end the worker, and all of it counts: what came of a job is a
 * list of calls, the best first, and if SQLite or claimq refuses the values of
 * one, the next is made.  The last has no value of the handler's.
 */
abstract class ClaimqHeld
{
    private const MAX_DELAY_MS = 2 ** 53 - 1;

    public readonly array $claim;               // its id and its token

    public function __construct(
        public readonly array $row,
        protected readonly SQLite3 $db,         // the worker's
        private readonly Closure $stopping,
    ) {
        $this->claim = [$row['claim_id'], $row['lease_token']];
    }

    /** In the log. */
    public function name(): string
    {
        return "claim {$this->claim[0]}";
    }

    /**
     * True when somebody else has taken it over, or it was cancelled: the
     * handler should stop, nothing that it still does counts.  It looks into
     * the database.
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

    /** Call the handler; returns the calls that settle what is held. */
    public function handle(callable $handler, Closure $log): array
    {
        try {
            return $this->completed($handler($this), $log);
        } catch (ClaimqPause $pause) {
            return $pause->calls;
        } catch (ClaimqRelease $error) {
            return $this->released($this->delay($error->delayMs, $log));
        } catch (ClaimqReject $error) {
            return $this->rejected(self::text($error->getMessage()));
        } catch (ClaimqRetry $error) {
            return $this->retried(self::text($error->getMessage()),
                $this->delay($error->delayMs, $log));
        } catch (Throwable $error) {
            $lines = [$error::class . ': ' . $error->getMessage(),
                $error->getFile() . ':' . $error->getLine(),
                ...explode("\n", $error->getTraceAsString())];
            $log("{$this->name()} failed: " . implode("\n  ", $lines));
            $reason = implode("\n  ", array_slice($lines, 0, 5));
            return $this->retried(self::text($reason), null,
                self::text(substr($error::class, -64)));
        }
    }

    /** Make the first of the calls whose values are accepted. */
    public function settle(array $calls, Closure $log): void
    {
        try {
            $this->call(...array_shift($calls));
        } catch (Exception $error) {
            if ($calls === [] || Claimq::waitingCures($error)) {
                throw $error;
            }
            $log("{$this->name()}: a value was refused: "
                . $error->getMessage());
            $this->settle($calls, $log);
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

    protected function completed(mixed $result, Closure $log): array
    {
        return [['complete(?, ?)']];
    }

    protected function released(?int $delay): array
    {
        return [["release(?, ?, 'delay_ms', ?)", $delay], ['release(?, ?)']];
    }

    protected function rejected(string $reason): array
    {
        return [['reject(?, ?, ?)', $reason], ["reject(?, ?, 'rejected')"]];
    }

    protected function retried(
        string $reason,
        ?int $delay,
        ?string $class = null,
    ): array {
        return [["retry(?, ?, ?, 'delay_ms', ?)", $reason, $delay],
            ["retry(?, ?, 'the handler failed')"]];
    }

    /** A delay in whole milliseconds; null: none, or the backoff. */
    private function delay(null|int|float $delay, Closure $log): ?int
    {
        if ($delay === null) {
            return null;
        }
        if (!is_finite($delay)) {
            $log("{$this->name()}: the delay is no finite number: there is "
                . 'none, or the backoff is used');
            return null;
        }
        $fits = (int) min(max(ceil($delay), 0), self::MAX_DELAY_MS);
        if ($fits != ceil($delay)) {
            $log("{$this->name()}: the delay is $fits instead of $delay");
        }
        return $fits;
    }

    /** Text that is not UTF-8 has its other bytes replaced. */
    private static function text(string $text): string
    {
        return preg_match('//u', $text) ? $text
            : preg_replace('/[\x80-\xff]/', '?', $text);
    }
}

/** What the handler of a worker gets.  $row has all columns of the claim. */
final class ClaimqJob extends ClaimqHeld
{
    use ClaimqPayload;

    private const OPEN = "SELECT id FROM (SELECT ? AS id) -- or never there
        WHERE id NOT BETWEEN 1 AND (SELECT seq FROM sqlite_sequence
                                    WHERE name='claimq_job')
        OR EXISTS (SELECT 1 FROM claimq_job
                   WHERE job_id=id AND terminal_at_ms IS NULL)";

    private int $naps = 0;

    public readonly int $id;
    public readonly string $lane;
    public readonly mixed $payload;
    public readonly int $attempt;               // 0 is the first

    public function __construct(array $row, SQLite3 $db, Closure $stopping)
    {
        parent::__construct($row, $db, $stopping);
        $this->id = $row['job_id'];
        $this->lane = $row['lane'];
        $this->payload = $row['payload'];
        $this->attempt = $row['attempt_index'];
    }

    public function name(): string
    {
        return "job {$this->id}";
    }

    /** The name that it was submitted with, or null. */
    public function task(): ?string
    {
        foreach (json_decode($this->row['capabilities']) as $word) {
            if (str_starts_with($word, Claimq::TASK)) {
                return substr($word, strlen(Claimq::TASK));
            }
        }
        return null;
    }

    /**
     * What the step of this name gave when it was run the first time, in
     * whichever attempt; if it never was, call $step and store what it returns,
     * as JSON.  With a connection of the handler's own inside a transaction,
     * the step is stored if and only if that is committed.
     */
    public function step(
        string $name,
        callable $step,
        ?SQLite3 $db = null,
    ): mixed {
        $db ??= $this->db;
        $found = [];
        try {
            $found = Claimq::rows($db, 'SELECT value FROM claimq_steps
                WHERE job_id=? AND name=?', $this->id, $name);
        } catch (Exception $error) {            // until there is a first step
            if (!str_contains($error->getMessage(), 'no such table')) {
                throw $error;
            }
        }
        $stored = $found !== [] ? $found[0]['value']
            : Claimq::value($db, 'SELECT claimq_step(?, ?, ?, ?)',
                ...$this->claim, ...[$name,
                    json_encode($step(), JSON_THROW_ON_ERROR)]);
        return is_string($stored)
            ? json_decode($stored, true, 512, JSON_THROW_ON_ERROR) : $stored;
    }

    /**
     * Give the job back for that time, once: when it comes back, the handler
     * begins anew, and this call returns at once.  Call sleeps in the same
     * order each time.
     */
    public function sleep(int|float $ms): void
    {
        $now = fn () => (int) (microtime(true) * 1000);
        $until = $this->step('sleep-' . ++$this->naps,
            fn () => $now() + (int) ceil($ms));
        if ($until > $now()) {
            throw new ClaimqPause('delay_ms', max(0, $until - $now()));
        }
    }

    /**
     * Return if these jobs have ended, however; else give the job back until
     * they have, when the handler begins anew.
     */
    public function waitFor(int|array $ids): void
    {
        foreach ((array) $ids as $id) {
            if (Claimq::value($this->db, self::OPEN, $id) !== null) {
                throw new ClaimqPause('after',
                    json_encode(array_values((array) $ids)));
            }
        }
    }

    protected function completed(mixed $result, Closure $log): array
    {
        $calls = parent::completed($result, $log);
        try {
            if ($result !== null && !is_scalar($result)) {
                $result = json_encode($result, JSON_THROW_ON_ERROR);
            }
            return [["complete(?, ?, 'result', ?)", $result], ...$calls];
        } catch (Throwable $error) {
            $log("{$this->name()} is done, but its result cannot be stored: "
                . $error->getMessage());
            return $calls;
        }
    }

    protected function retried(
        string $reason,
        ?int $delay,
        ?string $class = null,
    ): array {
        return [["retry(?, ?, ?, 'delay_ms', ?, 'error_class', ?)", $reason,
            $delay, $class], ["retry(?, ?, 'the handler failed')"]];
    }
}

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

/**
 * What holds claims, and how it keeps them: its settings, and the heartbeat.
 * PHP has no threads: a second process renews what is held, at a third of the
 * lease.
 */
abstract class ClaimqHolder
{
    use ClaimqPatience;

    protected bool $stopping = false;
    protected array $held = [];         // the handler works on the first
    protected array $signals = [];
    private mixed $renewer = null;      // a pipe to the process that renews,
    private mixed $process;             // and the process
    protected readonly string $owner;
    protected readonly Closure $log;

    public function __construct(
        protected readonly string $path,
        ?string $owner = null,
        protected readonly int $leaseMs = 30000,
        private readonly int $timeoutMs = 30000,
        private readonly bool $create = false,
        private readonly string $synchronous = 'normal',
        ?callable $log = null,          // gets a line about each failure
    ) {
        $this->owner = $owner ?? implode(':', [gethostname(), getmypid(),
            bin2hex(random_bytes(3))]);
        $this->log = $log ? $log(...)
            : fn (string $line) => error_log("claimq: $line");
    }

    /** End it soon.  May be called from a signal handler. */
    public function stop(): void
    {
        $this->stopping = true;
        $this->hold($this->held, 1);
    }

    /** A power cut may undo what was settled last, and it is done again. */
    protected function connect(): SQLite3
    {
        $db = Claimq::open($this->path, $this->timeoutMs);
        $db->exec("PRAGMA synchronous={$this->synchronous}");
        return $db;
    }

    /** Hold these jobs: the first are renewed, those after them given back. */
    protected function hold(array $jobs, int $keep = PHP_INT_MAX): void
    {
        $this->held = $jobs;
        $claims = array_column($jobs, 'claim');
        $line = json_encode([array_slice($claims, 0, $keep),
            array_slice($claims, $keep)]);
        if ($this->renewer && !@fwrite($this->renewer, $line . "\n")) {
            ($this->log)('the process that renews has ended: another begins');
            $this->startRenewing();
            fwrite($this->renewer, $line . "\n");
        }
    }

    /** Start the process that renews.  The signals stay blocked there. */
    protected function startRenewing(): void
    {
        if ($this->signals !== []) {
            pcntl_sigprocmask(SIG_BLOCK, $this->signals);
        }
        $folder = 'sqlite3.extension_dir=' . ini_get('sqlite3.extension_dir');
        $code = 'require $argv[1]; ClaimqHolder::renew($argv[2], '
            . '+$argv[3], +$argv[4], $argv[5]);';
        $process = proc_open([PHP_BINARY, '-d', $folder, '-r', $code, '--',
            __FILE__, $this->file ?: $this->path, (string) $this->leaseMs,
            (string) $this->timeoutMs, $this->synchronous], [['pipe', 'r']],
            $pipes) ?: throw new RuntimeException('no process that renews');
        [$this->process, $this->renewer] = [$process, $pipes[0]];
        if ($this->signals !== []) {
            pcntl_sigprocmask(SIG_UNBLOCK, $this->signals);
        }
    }

    /** Give back what is held, and end that process. */
    protected function endRenewing(): void
    {
        if ($this->renewer) {
            $this->hold($this->held, 0);
            $this->held = [];
            $this->renewer = null;      // closed: the process ends
            proc_close($this->process);
        }
    }

    /** What that process does, until the worker closes the pipe or is gone. */
    public static function renew(
        string $path,
        int $leaseMs,
        int $timeoutMs,
        string $synchronous,
    ): void {
        $db = null;
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
                    if ($db === null) {
                        $db = Claimq::open($path, $timeoutMs);
                        $db->exec("PRAGMA synchronous=$synchronous");
                    }
                    Claimq::value($db, $calls[$heard], ...$claim);
                } catch (Exception $error) {    // tried again, or it ends
                    if (Claimq::code($error) !== 'claim_lost') {
                        error_log('claimq: renewing: ' . $error->getMessage());
                    }
                }
            }
        }
    }
}

/**
 * What the loops of ClaimqWorker, ClaimqOutbox and ClaimqSession share, for the
 * command line.  A subclass says what is claimed (claim, wait), who
 * handles it (handlerFor), and what the log calls it (scope).
 *
 * One connection claims, waits and settles; it settles a job and takes the next
 * one in the same transaction.  If somebody else has taken a job over (after a
 * pause longer than the lease, or by claimq_revoke), $job->lost() says so, and
 * the loop goes on with the next job.  With `concurrency` n there are n
 * processes, each with such a loop.
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
        $missing = $this->concurrency;
        $children = $asked = $said = [];
        while ($children !== [] || ($missing > 0 && !$this->stopping)) {
            for (; $missing > 0 && !$this->stopping; $missing--) {
                $pid = pcntl_fork();
                if ($pid < 0) {
                    break;              // there is no room for it yet
                }
                if ($pid === 0) {
                    $this->workAsChild($drain, $theirs);
                }
                $children[$pid] = $pid;
            }
            usleep(20000);
            if ($this->stopping) {
                array_map(fn ($pid) => posix_kill($pid, SIGTERM),
                    array_diff($children, $asked));
                $asked = $children;
            }
            foreach ($children as $pid) {
                if (pcntl_waitpid($pid, $status, WNOHANG) === 0) {
                    continue;
                }
                unset($children[$pid]);
                while ($line = fgets($ours)) {
                    $said += json_decode($line, true);
                }
                if (!isset($said[$pid])) {
                    ($this->log)("process $pid has died: another begins");
                    $missing++;
                } elseif (is_string($said[$pid])) {
                    $this->stop();          // the others as well
                }
            }
        }
        foreach (array_filter($said, is_string(...)) as $error) {
            throw new RuntimeException($error);
        }
        return array_sum($said);
    }

    /** Work, say what came of it, and end the process. */
    private function workAsChild(bool $drain, mixed $pipe): never
    {
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
            $this->startRenewing();
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

/**
 * The loop of a worker, whole.
 *
 *     (new ClaimqWorker('app.db', 'mail', fn ($job) => ...))->run();
 *
 * What the handler does decides what becomes of the job: it returns (completed,
 * with what it returns as the result), throws a ClaimqReject (to the dead
 * letters), a ClaimqRelease (given back), or anything else (retried later; a
 * ClaimqRetry says when).
 *
 * With several lanes it asks them in their order, each time from the first.
 * task() gives the jobs of one name a handler of their own; jobs with other
 * names wait for a worker that knows these.
 */
final class ClaimqWorker extends ClaimqLoop
{
    private const CLAIM = 'SELECT * FROM claimq_lane(?, ?, ?, ?)
        WHERE capabilities=? AND partition=?';
    private const WAIT = "SELECT claimq_wait(500, 'lanes', ?,
        'capabilities', ?, 'partition', ?)";
    private const NO_HANDLER = 'no handler for jobs without a task';

    private readonly array $lanes;
    private readonly int|string|null $partition;
    private array $tasks = [];

    /** The other options are those of ClaimqLoop. */
    public function __construct(
        string $path,
        string|array $lanes,
        ?callable $handler = null,
        private readonly int $batch = 1,
        private readonly array $capabilities = [],
        null|int|array $partition = null,   // all of them
        mixed ...$options,
    ) {
        parent::__construct($path, $handler, ...$options);
        $this->lanes = array_values((array) $lanes);
        $this->partition = is_array($partition) ? json_encode($partition)
            : $partition;
    }

    /** Jobs that were submitted with this task are handled by this function. */
    public function task(string $name, callable $handler): static
    {
        $this->tasks[$name] = $handler(...);
        return $this;
    }

    protected function scope(): string
    {
        return (count($this->lanes) === 1 ? 'lane ' : 'lanes ')
            . implode(', ', $this->lanes);
    }

    protected function handlerFor(ClaimqHeld $job): callable
    {
        $named = $this->tasks[$job->task() ?? ''] ?? null;
        return $named ?? $this->handler ?? function () use ($job) {
            ($this->log)("{$job->name()}: " . self::NO_HANDLER);
            throw new ClaimqRetry(self::NO_HANDLER);
        };
    }

    protected function claim(SQLite3 $db, bool $inside = false): array
    {
        $stopping = fn () => $this->stopping;
        $ask = $inside && $this->batch === 1 ? Claimq::row(...)
            : Claimq::rows(...);
        foreach ($this->lanes as $lane) {
            $rows = $ask($db, self::CLAIM, $lane, $this->owner, $this->leaseMs,
                $this->batch, ...$this->can());
            if ($rows !== []) {
                return array_map(fn ($row) => new ClaimqJob($row, $db,
                    $stopping), $rows);
            }
        }
        return [];
    }

    protected function wait(SQLite3 $db): void
    {
        Claimq::value($db, self::WAIT, json_encode($this->lanes),
            ...$this->can());
    }

    /** What it can do, and of which partitions. */
    private function can(): array
    {
        $tasks = array_map(fn ($name) => Claimq::TASK . $name,
            array_keys($this->tasks));
        return [json_encode([...$this->capabilities, ...$tasks]),
            $this->partition];
    }
}

/** A message of an outbox, or of a session: a row of the claim. */
final class ClaimqMessage
{
    use ClaimqPayload;

    public readonly mixed $payload;

    public function __construct(public readonly array $row)
    {
        $this->payload = $row['payload'];
    }
}

/** The messages of a claim, in order: what the handler of a session gets. */
class ClaimqMessages extends ClaimqHeld
{
    public readonly array $messages;

    public function __construct(array $rows, SQLite3 $db, Closure $stopping)
    {
        parent::__construct($rows[0], $db, $stopping);
        $this->messages = array_map(fn ($row) => new ClaimqMessage($row),
            $rows);
    }
}

/** What the handler of an outbox gets: messages of one partition. */
final class ClaimqBatch extends ClaimqMessages
{
    private array $done = [];

    /**
     * If the handler fails later, this message does not come again, provided
     * that those before it are done as well.
     */
    public function done(ClaimqMessage $message): void
    {
        $this->done[] = $message;
    }

    private function processed(): int
    {
        foreach ($this->messages as $i => $message) {
            if (!in_array($message, $this->done, true)) {
                return $i;
            }
        }
        return count($this->messages);
    }

    protected function released(?int $delay): array
    {
        $n = $this->processed();
        return $n === 0 ? parent::released($delay)
            : [["retry(?, ?, 'released', 'delay_ms', ?, 'processed', ?)",
                (int) $delay, $n]];
    }

    protected function rejected(string $reason): array
    {
        $n = $this->processed();
        return [["reject(?, ?, ?, 'processed', ?)", $reason, $n],
            ["reject(?, ?, 'rejected', 'processed', ?)", $n]];
    }

    protected function retried(
        string $reason,
        ?int $delay,
        ?string $class = null,
    ): array {
        $n = $this->processed();
        return [["retry(?, ?, ?, 'delay_ms', ?, 'processed', ?)", $reason,
            $delay, $n],
            ["retry(?, ?, 'the handler failed', 'processed', ?)", $n]];
    }
}

/**
 * The loop of an outbox: the messages of each partition in order, a batch at a
 * time; with `concurrency`, of several partitions at once.
 *
 *     (new ClaimqOutbox('app.db', 'orders', function (ClaimqBatch $batch) {
 *         foreach ($batch->messages as $message) {
 *             send($message->json());
 *             $batch->done($message);
 *         }
 *     }))->run();
 *
 * If the handler returns, the batch is completed.  If it throws, it is retried
 * from the first message that is not done; ClaimqReject makes letters of these.
 */
final class ClaimqOutbox extends ClaimqLoop
{
    private const CLAIM = 'SELECT * FROM claimq_outbox(?, ?, ?, ?)
        WHERE partition=?';
    private const WAIT = "SELECT claimq_wait(500, 'outbox', ?, 'partition', ?)";

    /** $max of a batch; null: as claimq_queue says.  Others: ClaimqLoop. */
    public function __construct(
        string $path,
        private readonly string $queue,
        callable $handler,
        private readonly ?int $max = null,
        private readonly ?int $partition = null,
        mixed ...$options,
    ) {
        parent::__construct($path, $handler, ...$options);
    }

    protected function scope(): string
    {
        return "outbox {$this->queue}";
    }

    protected function claim(SQLite3 $db, bool $inside = false): array
    {
        $rows = Claimq::rows($db, self::CLAIM, $this->queue, $this->owner,
            $this->leaseMs, $this->max, $this->partition);
        return $rows === [] ? []
            : [new ClaimqBatch($rows, $db, fn () => $this->stopping)];
    }

    protected function wait(SQLite3 $db): void
    {
        Claimq::value($db, self::WAIT, $this->queue, $this->partition);
    }
}

/**
 * The loop of sessions: the work of each conversation in order, one turn at a
 * time; with `concurrency`, of several conversations at once.
 *
 *     (new ClaimqSession('app.db', function (ClaimqMessages $turn) {
 *         answer($turn->row['session'], $turn->messages);
 *     }))->run();
 */
final class ClaimqSession extends ClaimqLoop
{
    private const CLAIM = "SELECT * FROM claimq(?, ?, ?)
        WHERE serial=1 AND take='any'";
    private const WAIT = "SELECT claimq_wait(500, 'session', ?, 'serial', 1,
        'take', 'any')";

    /** $session: only of this one.  The others are those of ClaimqLoop. */
    public function __construct(
        string $path,
        callable $handler,
        private readonly ?string $session = null,
        mixed ...$options,
    ) {
        parent::__construct($path, $handler, ...$options);
    }

    protected function scope(): string
    {
        return $this->session === null ? 'any session'
            : "session {$this->session}";
    }

    protected function claim(SQLite3 $db, bool $inside = false): array
    {
        $rows = Claimq::rows($db, self::CLAIM, $this->session, $this->owner,
            $this->leaseMs);
        return $rows === [] ? []
            : [new ClaimqMessages($rows, $db, fn () => $this->stopping)];
    }

    protected function wait(SQLite3 $db): void
    {
        Claimq::value($db, self::WAIT, $this->session);
    }
}

/** What the function of a contest gets. */
final class ClaimqGuard extends ClaimqHeld
{
    /** For what is written elsewhere: a later holder has a greater one. */
    public function fencingToken(): int
    {
        return $this->row['fencing_token'];
    }
}

/**
 * At most one holder of a name: a lock, or the leader of several.
 *
 *     (new ClaimqContest('app.db', 'nightly'))->acquire(
 *         function (ClaimqGuard $guard) {
 *             while (!$guard->lost()) { ... }
 *         });
 *
 * While the function runs a second process renews the lease; $guard->lost()
 * says that it is over all the same (after a pause longer than the lease, or
 * claimq_revoke).
 */
final class ClaimqContest extends ClaimqHolder
{
    private const CLAIM = 'SELECT * FROM claimq_contest(?, ?, ?) WHERE kind=?';
    private const WAIT = "SELECT claimq_wait(500, 'contest', ?, 'kind', ?)";

    /** The other options are those of ClaimqHolder. */
    public function __construct(
        string $path,
        private readonly string $label,
        private readonly int $kind = 0,
        mixed ...$options,
    ) {
        parent::__construct($path, ...$options);
    }

    /**
     * Call $f while the name is held; returns what $f returns.  It waits until
     * the name is free; with wait: false, or after stop(), it returns null.
     */
    public function acquire(callable $f, bool $wait = true): mixed
    {
        $this->checkThere();
        $db = $this->connect();
        while (($guard = $this->claim($db)) === null) {
            if ($this->stopping || !$wait) {
                return null;
            }
            Claimq::value($db, self::WAIT, $this->label, $this->kind);
        }
        $this->rememberFile();
        $this->startRenewing();
        try {
            $this->hold([$guard]);
            return $f($guard);
        } finally {
            $this->endRenewing();
        }
    }

    private function claim(SQLite3 $db): ?ClaimqGuard
    {
        [$row] = Claimq::rows($db, self::CLAIM, $this->label, $this->owner,
            $this->leaseMs, $this->kind);
        return $row['outcome'] !== 'claimed' ? null
            : new ClaimqGuard($row, $db, fn () => $this->stopping);
    }
}
