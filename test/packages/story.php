<?php
// The story of tcl/story.tcl, told with Claimq.php.
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

function handle(SQLite3 $db, ClaimqJob $job): string
{
    [$word, $name] = explode(' ', $job->payload . ' ');
    if ($word === 'count') {
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
    } elseif ($word === 'lost') {
        write("$name.begun");
        while (!$job->lost()) {
            usleep(10000);
        }
        write("$name.lost");
    }
    return "did {$job->payload}";
}

$db = Claimq::open($path);
if ($what === 'calls') {
    calls($db);
} else {
    $worker = new ClaimqWorker($path, $argv[4],
        fn (ClaimqJob $job) => handle($db, $job),
        leaseMs: (int) $argv[5], batch: (int) $argv[6]);
    echo 'begun ', $worker->run(), "\n";
}
