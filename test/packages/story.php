<?php
// The story of tcl/test/story.tcl, with Claimq.php.
//
//     php story.php CLAIMQ.PHP calls DATABASE
//     php story.php CLAIMQ.PHP worker DATABASE LANE LEASE_MS BATCH
declare(strict_types=1);
[, $package, $what, $path] = $argv;
require $package;

function calls(SQLite3 $db): void
{
    echo 'version ', Claimq::value($db, 'SELECT claimq_version()'), "\n";
    echo 'journal ', $db->querySingle('PRAGMA journal_mode'), "\n";

    // A stale worker is refused, and recognised.
    $claim = "SELECT * FROM claimq_lane('stale', ?, 1000) WHERE now_ms=?";
    Claimq::value($db, "SELECT claimq_submit('stale', 'x', 'now_ms', 1000)");
    $mine = Claimq::rows($db, $claim, 'a', 1000)[0];
    Claimq::rows($db, $claim, 'b', 2000);
    try {
        Claimq::value($db, 'SELECT claimq_complete(?, ?)', $mine['claim_id'],
            $mine['lease_token']);
    } catch (Exception $error) {
        echo 'stale ', Claimq::code($error), "\n";
    }
    try {
        Claimq::value($db, 'SELECT nonsense()');
    } catch (Exception $error) {
        echo 'other ', Claimq::code($error) ?? 'none', "\n";
    }

    // An order and its job, in one transaction.
    $db->exec('CREATE TABLE orders(id)');
    foreach ([1 => 'x', 2 => 'y'] as $id => $payload) {
        try {
            Claimq::transaction($db, function () use ($db, $id, $payload) {
                Claimq::value($db, "SELECT claimq_submit('orders', ?)",
                    $payload);
                $db->exec("INSERT INTO orders VALUES ($id)");
                if ($id === 1) {
                    throw new LogicException('something else goes wrong');
                }
            });
        } catch (LogicException) {
            // The first order is rolled back.
        }
    }
}

function write(string $name): void
{
    touch("$name.tmp");
    rename("$name.tmp", $name);
}

final class Odd extends Exception
{
    public string $delayMs = 'soon';
}

function odd(int $attempt): void
{
    if ($attempt === 0) {
        throw new ClaimqRetry('negative', -1);
    }
    if ($attempt === 1) {
        throw new ClaimqRetry('half', 0.5);
    }
    if ($attempt === 2) {
        throw new Odd("no text: \xff");
    }
}

function note(string $name, string $word, mixed $value): mixed
{
    file_put_contents("$name.log", "$word\n", FILE_APPEND);
    return $value;
}

function steps(ClaimqJob $job, SQLite3 $db, string $name): void
{
    $first = $job->step('one', fn () => note($name, 'one', ['n' => 1]));
    if ($job->attempt === 0) {
        throw new ClaimqRetry('again', 1);
    }
    $job->sleep(1);
    $child = $job->step('child', fn () => note($name, 'child',
        Claimq::value($db, "SELECT claimq_submit(?, 'count')",
            $GLOBALS['argv'][4])));
    $job->waitFor([$child]);
    $job->step('two', fn () => note($name, 'two', $first['n'] + 1));
}

function agent(ClaimqJob $job, string $name, int $n): int
{
    static $functions = 0;
    $most = (int) (getenv('STORY_FUNCTIONS') ?: PHP_INT_MAX);
    $total = 0;
    for ($i = 0; $i < $n; $i++) {
        $total += $job->step("s$i",
            function () use ($name, $i, $most, &$functions) {
                $functions++;
                while ($functions > $most) {
                    sleep(1);           // until it is killed
                }
                return note($name, "s$i", $i);
            });
    }
    return $total;
}

function fan(ClaimqJob $job, SQLite3 $db, string $lane, int $n): mixed
{
    $children = $job->step('children', fn () => array_map(
        fn (int $i) => Claimq::submit($db, $lane, "part $i"), range(1, $n)));
    $job->waitFor($children);
    return Claimq::value($db,
        'SELECT sum(result) FROM claimq_job WHERE lane=?', $lane);
}

function ask(ClaimqJob $job, SQLite3 $db, int $id): mixed
{
    $job->waitFor([$id]);
    return Claimq::value($db, 'SELECT result FROM claimq_job WHERE job_id=?',
        $id);
}

function handle(string $path, ClaimqJob $job): mixed
{
    static $db;
    [$word, $name, $n] = explode(' ', $job->payload . '  ');
    if ($word === 'odd') {
        odd($job->attempt);
    } elseif ($word === 'never') {
        throw new ClaimqRetry('never', 2 ** 70);
    } elseif ($word === 'what') {
        return ['what' => NAN];
    } elseif ($word === 'count') {
        $db ??= Claimq::open($path);
        $db->exec("INSERT INTO done VALUES ({$job->id})");
    } elseif ($word === 'fail' && $job->attempt === 0) {
        throw new RuntimeException('no luck');
    } elseif ($word === 'later' && $job->attempt === 0) {
        throw new ClaimqRetry('later', 1);
    } elseif ($word === 'reject') {
        throw new ClaimqReject('poison');
    } elseif ($word === 'hold') {
        write("$name.begun");
        while (!file_exists("$name.go")) {
            usleep(10000);
            clearstatcache();
        }
    } elseif ($word === 'steps') {
        $db ??= Claimq::open($path);
        steps($job, $db, $name);
    } elseif ($word === 'agent') {
        return agent($job, $name, (int) $n);
    } elseif ($word === 'fan') {
        return fan($job, $db ??= Claimq::open($path), $name, (int) $n);
    } elseif ($word === 'part') {
        return (int) $name;
    } elseif ($word === 'ask') {
        return ask($job, $db ??= Claimq::open($path), (int) $name);
    } elseif ($word === 'lost') {
        write("$name.begun");
        while (!$job->lost()) {
            usleep(10000);
        }
        write("$name.lost");
    }
    return "did {$job->payload}";
}

if ($what === 'calls') {
    calls(Claimq::open($path));
} else {
    $worker = new ClaimqWorker($path, $argv[4],
        fn (ClaimqJob $job) => handle($path, $job),
        leaseMs: (int) $argv[5], batch: (int) $argv[6],
        concurrency: (int) (getenv('STORY_CONCURRENCY') ?: 1),
        timeoutMs: (int) (getenv('STORY_TIMEOUT_MS') ?: 30000));
    $begun = $worker->run();
    echo "begun $begun\n";
}
