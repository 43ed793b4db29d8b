<?php
declare(strict_types=1);

/*
 * worker_php.php: the Worker of claimq and the database queue of Laravel.
 *
 *     php -d sqlite3.extension_dir=... worker_php.php LIBRARY \
 *         QUEUE DIR JOBS CONCURRENCY MS
 *
 * LIBRARY is Claimq.php, or the folder of Illuminate; QUEUE is claimq or
 * laravel.  The rest is that of worker_python.py, where it is explained.  Both
 * work on several jobs by several processes.  So each handler adds a line to the file
 * DIR/seen: its process, the times, the payload.
 */

use Illuminate\Container\Container;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Database\Capsule\Manager as Database;
use Illuminate\Database\Connection;
use Illuminate\Database\SQLiteConnection;
use Illuminate\Queue\Capsule\Manager as Queue;
use Illuminate\Queue\Connectors\DatabaseConnector;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;

function cpu(): float
{
    $use = getrusage();
    return $use['ru_utime.tv_sec'] + $use['ru_stime.tv_sec']
        + ($use['ru_utime.tv_usec'] + $use['ru_stime.tv_usec']) / 1e6;
}

/** What both have as a handler. */
final class Handler
{
    public static string $seen;
    public static int $us;
    private static $log;

    public static function handle(string $payload): void
    {
        self::$log ??= fopen(self::$seen, 'a');
        $start = [hrtime(true) / 1e9, cpu()];
        if (self::$us > 0) {
            usleep(self::$us);
        }
        fwrite(self::$log, sprintf("%d %.6f %.6f %.6f %.6f %s\n", getmypid(),
            ...$start, ...[hrtime(true) / 1e9, cpu(), $payload]));
    }

    /** Laravel calls this. */
    public function fire($job, array $data): void
    {
        self::handle($data['payload']);
        $job->delete();
    }
}

function claimq(string $library, string $path, array $payloads, int $n): string
{
    require $library;
    $db = Claimq::open($path);
    Claimq::transaction($db, function () use ($db, $payloads) {
        foreach ($payloads as $payload) {
            Claimq::submit($db, 'q', $payload);
        }
    });
    $db->close();
    (new ClaimqWorker($path, 'q', fn ($job) => Handler::handle($job->payload),
        concurrency: $n, log: fn () => null))->drain();
    return Claimq::VERSION;
}

/**
 * Laravel takes a job by a SELECT and an UPDATE in one transaction.  A deferred
 * one fails at once if another worker has written in between, and the worker
 * then sleeps for a second, or the job is done again after 90 s.  So here a
 * transaction begins with the lock, as with the transaction_mode of newer
 * releases; PDO has no word for that, but a DELETE of nothing takes it.
 */
function laravel_connection(mixed ...$all): object
{
    return new class(...$all) extends SQLiteConnection {
        protected function createTransaction()
        {
            parent::createTransaction();
            $this->getPdo()->exec('DELETE FROM jobs WHERE 0');
        }
    };
}

/** A container with a database and a queue in it. */
function laravel_queue(string $path): Container
{
    $app = new Container();
    Connection::resolverFor('sqlite', laravel_connection(...));
    $database = new Database($app);
    $database->addConnection(['driver' => 'sqlite', 'database' => $path]);
    foreach (['busy_timeout=30000', 'journal_mode=WAL', 'synchronous=NORMAL']
        as $pragma) {
        $database->getConnection()->statement("PRAGMA $pragma");
    }
    $app->instance('events', new Illuminate\Events\Dispatcher($app));
    $queue = new Queue($app);
    $queue->getQueueManager()->addConnector('database',
        fn () => new DatabaseConnector($database->getDatabaseManager()));
    $queue->addConnection(['driver' => 'database', 'table' => 'jobs',
        'queue' => 'default', 'retry_after' => 90]);
    $app->instance('database', $database);
    $app->instance('jobs', $queue);
    return $app;
}

/** The table of artisan queue:table. */
const JOBS = 'CREATE TABLE jobs(
    id integer NOT NULL PRIMARY KEY AUTOINCREMENT, queue varchar NOT NULL,
    payload text NOT NULL, attempts integer NOT NULL, reserved_at integer,
    available_at integer NOT NULL, created_at integer NOT NULL)';

function laravel(string $library, string $path, array $payloads, int $n): string
{
    foreach (['Database', 'Events', 'Queue'] as $part) {
        require "$library/$part/autoload.php";
    }
    touch($path);
    $app = laravel_queue($path);
    $database = $app->get('database')->getConnection();
    $database->statement(JOBS);
    $database->statement('CREATE INDEX jobs_queue_index ON jobs(queue)');
    $database->transaction(function () use ($app, $payloads) {
        foreach ($payloads as $payload) {
            $app->get('jobs')->getConnection()->push('Handler',
                ['payload' => $payload]);
        }
    });
    $database->disconnect();
    for ($i = 0; $i < $n; $i++) {
        if (pcntl_fork() === 0) {
            laravel_worker($path);
            exit(0);
        }
    }
    while (pcntl_wait($status) > 0);
    return trim((string) shell_exec(
        'dpkg-query -W -f \'${Version}\' php-illuminate-queue'));
}

/** Works until nothing is left; what fails for a lock is asked again. */
function laravel_worker(string $path): void
{
    $app = laravel_queue($path);
    $quiet = new class implements ExceptionHandler {
        public function report(Throwable $e) {}
        public function shouldReport(Throwable $e) { return false; }
        public function render($request, Throwable $e) {}
        public function renderForConsole($output, Throwable $e) {}
    };
    $worker = new Worker($app->get('jobs')->getQueueManager(),
        $app->get('events'), $quiet, fn () => false);
    $options = new WorkerOptions(sleep: 0);
    $left = fn () => $app->get('database')->getConnection()
        ->table('jobs')->exists();
    while ($left()) {
        $worker->runNextJob('default', 'default', $options);
    }
}

[, $library, $name, $where, $jobs, $concurrency, $ms] = $argv;
$payloads = array_map(fn ($i) => sprintf('job %046d', $i),
    range(0, (int) $jobs - 1));
Handler::$seen = "$where/seen";
Handler::$us = (int) ($ms * 1000);
$version = $name($library, "$where/queue.db", $payloads, (int) $concurrency);
$lines = array_map(fn ($line) => explode(' ', $line, 6),
    file(Handler::$seen, FILE_IGNORE_NEW_LINES));
$seen = array_column($lines, 5);
sort($seen);
if ($seen !== $payloads) {
    throw new RuntimeException('seen: ' . count($seen));
}
$cpu = 0;
foreach (array_unique(array_column($lines, 0)) as $process) {
    $its = array_filter($lines, fn ($line) => $line[0] === $process);
    $cpu += max(array_column($its, 4)) - min(array_column($its, 2));
}
echo json_encode(['version' => $version, 'cpu' => $cpu, 'seconds' =>
    max(array_column($lines, 3)) - min(array_column($lines, 1))]), "\n";
