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

function steps(ClaimqJob $job, SQLite3 $db, string $name): void
{
    $note = function (string $word, mixed $value) use ($name): mixed {
        file_put_contents("$name.log", "$word\n", FILE_APPEND);
        return $value;
    };
    $first = $job->step('one', fn () => $note('one', ['n' => 1]));
    if ($job->attempt === 0) {
        throw new ClaimqRetry('again', 1);
    }
    $job->sleep(1);
    $child = $job->step('child', fn () => $note('child',
        Claimq::value($db, "SELECT claimq_submit(?, 'count')",
            $GLOBALS['argv'][4])));
    $job->waitFor([$child]);
    $job->step('two', fn () => $note('two', $first['n'] + 1));
}

function handle(string $path, ClaimqJob $job): mixed
{
    static $db;
    [$word, $name] = explode(' ', $job->payload . ' ');
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
        timeoutMs: (int) (getenv('STORY_TIMEOUT_MS') ?: 30000));
    $begun = $worker->run();
    echo "begun $begun\n";
}
