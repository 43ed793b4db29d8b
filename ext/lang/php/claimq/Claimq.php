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
 * The package is one file, Claimq.php: this one with the others of its folder
 * behind it.  The library, claimq.so, is where make install or the Debian
 * package has put it.
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
        self::gate($db, 1);
        try {
            return self::locked($db, $f);
        } finally {
            self::gate($db, 0);
        }
    }

    /**
     * Before a transaction (1) it waits for its turn among claimq's writers, so
     * that it need not sleep in SQLite; after it (0) the next one is woken.  It
     * is only a hint, which a connection without claimq does not have: no error
     * matters.
     */
    private static function gate(SQLite3 $db, int $enter): void
    {
        try {
            @$db->querySingle('SELECT claimq__gate(' . $enter . ')');
        } catch (Exception) {
            // SQLite's own lock decides.
        }
    }

    private static function locked(SQLite3 $db, callable $f): mixed
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
