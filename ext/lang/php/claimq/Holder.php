<?php
declare(strict_types=1);

/* What holds claims, and the process that renews them. */

/**
 * What holds claims, and how it keeps them: its settings, and the heartbeat.
 * PHP has no threads: one more process renews what is held, at a third of the
 * lease, whichever of several processes holds it.
 */
abstract class ClaimqHolder
{
    use ClaimqPatience;

    protected bool $stopping = false;
    protected array $held = [];         // the handler works on the first
    protected array $signals = [];
    private mixed $renewer = null;      // the process that renews,
    protected array $pipes = [];        // to it, one for each that holds,
    protected mixed $pipe = null;       // and the one of this process
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
        if ($this->pipe && !@fwrite($this->pipe, $line . "\n")) {
            ($this->log)('the process that renews has ended: another begins');
            $this->startRenewing();
            fwrite($this->pipe, $line . "\n");
        }
    }

    /** Start the process that renews.  The signals stay blocked there. */
    protected function startRenewing(int $holders = 1): void
    {
        if ($this->signals !== []) {
            pcntl_sigprocmask(SIG_BLOCK, $this->signals);
        }
        $folder = 'sqlite3.extension_dir=' . ini_get('sqlite3.extension_dir');
        $code = 'require $argv[1]; ClaimqHolder::renew($argv[2], '
            . '+$argv[3], +$argv[4], $argv[5], +$argv[6]);';
        $this->renewer = proc_open([PHP_BINARY, '-d', $folder, '-r', $code,
            '--', __FILE__, $this->file ?: $this->path,
            (string) $this->leaseMs, (string) $this->timeoutMs,
            $this->synchronous, (string) $holders],
            array_fill(3, $holders, ['pipe', 'r']), $pipes)
            ?: throw new RuntimeException('no process that renews');
        $this->pipes = array_values($pipes);
        $this->pipe = $this->pipes[0];
        if ($this->signals !== []) {
            pcntl_sigprocmask(SIG_UNBLOCK, $this->signals);
        }
    }

    /**
     * Give back what is held, and close the pipes, with which that process ends.
     * Of those that share it, only the one that has begun it waits for that.
     */
    protected function endRenewing(): void
    {
        $this->hold($this->held, 0);
        $this->held = [];
        $this->pipe = null;
        if ($this->renewer) {
            proc_close($this->renewer);
            $this->renewer = null;
        }
    }

    /** What that process does, until all that hold have closed their pipes. */
    public static function renew(
        string $path,
        int $leaseMs,
        int $timeoutMs,
        string $synchronous,
        int $holders,
    ): void {
        $db = null;
        $call = function (string $verb, array $claims) use (&$db, $path,
            $timeoutMs, $synchronous) {
            foreach ($claims as $claim) {
                try {
                    if ($db === null) {
                        $db = Claimq::open($path, $timeoutMs);
                        $db->exec("PRAGMA synchronous=$synchronous");
                    }
                    Claimq::value($db, "SELECT claimq_$verb", ...$claim);
                } catch (Exception $error) {    // tried again, or it ends
                    if (Claimq::code($error) !== 'claim_lost') {
                        error_log('claimq: renewing: ' . $error->getMessage());
                    }
                }
            }
        };
        $pipes = array_map(fn ($n) => fopen("php://fd/$n", 'r'),
            range(3, 2 + $holders));
        $held = [];                     // what came by each
        $due = microtime(true) + $leaseMs / 3000;
        while ($pipes !== []) {
            $ready = $pipes;
            $us = (int) max(0, ($due - microtime(true)) * 1e6);
            stream_select($ready, $none, $none, 0, $us);
            foreach ($ready as $i => $pipe) {
                [$held[$i], $back] = json_decode(fgets($pipe) ?: '[[], []]');
                $call('release(?, ?)', $back);
                if (feof($pipe)) {
                    unset($pipes[$i]);
                }
            }
            if (microtime(true) >= $due) {
                $due = microtime(true) + $leaseMs / 3000;
                $call("renew(?, ?, $leaseMs)", array_merge(...$held));
            }
        }
    }
}
