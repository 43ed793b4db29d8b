<?php
declare(strict_types=1);

/* A job of a lane: see Held.php for what becomes of it. */

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
