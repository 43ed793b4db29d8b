<?php
declare(strict_types=1);

/* The worker of lanes. */

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
