<?php
declare(strict_types=1);

/* What a loop holds, and what becomes of it by what its handler does. */

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
