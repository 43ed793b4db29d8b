<?php
declare(strict_types=1);

/* At most one holder of a name. */

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
