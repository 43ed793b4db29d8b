<?php
declare(strict_types=1);

/* The loops of an outbox and of sessions. */

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
