<?php
// The traps of ext/lang/php/README.md, and the way around each of them.
//
//     php traps.php CLAIMQ.PHP NAME DATABASE
//
// Prints what happens, a line for the natural way and a line for the recipe.
declare(strict_types=1);
[, $package, $name, $path] = $argv;
require $package;

const CLAIM = "SELECT claim_id, lease_token
    FROM claimq_lane('l', 'w', 30000, 3)";

function fresh(string $path, int $jobs): SQLite3
{
    $db = Claimq::open($path);
    $db->exec('CREATE TABLE orders(id)');
    for ($i = 0; $i < $jobs; $i++) {
        Claimq::value($db, "SELECT claimq_submit('l', 'x')");
    }
    return $db;
}

function jobs(SQLite3 $db, string $state): int
{
    return $db->querySingle(
        "SELECT count(*) FROM claimq_job WHERE state='$state'");
}

$traps = [
    // query() runs a statement twice.
    'submit' => function () use ($path) {
        $db = fresh($path, 0);
        $db->query("SELECT claimq_submit('l', 'x')")->fetchArray();
        echo 'query: ', jobs($db, 'ready'), "\n";
        Claimq::value($db, "SELECT claimq_submit('l', ?)", 'x');
        echo 'value: ', jobs($db, 'ready'), "\n";
        $statement = $db->prepare("SELECT claimq_submit('l', ?)");
        $statement->bindValue(1, 'x');
        $statement->execute()->fetchArray();
        echo 'execute: ', jobs($db, 'ready'), "\n";
    },
    'claim' => function () use ($path) {
        $db = fresh($path, 3);
        $n = 0;
        $result = $db->query(CLAIM);
        while ($result->fetchArray()) {
            $n++;
        }
        $result->finalize();
        echo "query: $n of ", jobs($db, 'active'), "\n";
        for ($i = 0; $i < 3; $i++) {
            Claimq::value($db, "SELECT claimq_submit('l', 'x')");
        }
        $rows = Claimq::rows($db, CLAIM);
        echo 'rows: ', count($rows), ' of ', jobs($db, 'active'), "\n";
    },
    // Of a session the second run says that the claim is lost, and it is not.
    'complete' => function () use ($path) {
        $db = fresh($path, 0);
        foreach (['execute', 'value', 'exec'] as $how) {
            Claimq::value($db, "SELECT claimq_enqueue('s', 'x')");
            $row = Claimq::rows($db, "SELECT * FROM claimq('s', 'w')")[0];
            $claim = [$row['claim_id'], $row['lease_token']];
            $sql = 'SELECT claimq_complete(?, ?)';
            try {
                if ($how === 'execute') {
                    $statement = $db->prepare($sql);
                    $statement->bindValue(1, $claim[0]);
                    $statement->bindValue(2, $claim[1]);
                    $statement->execute()->fetchArray();
                } elseif ($how === 'value') {
                    Claimq::value($db, $sql, ...$claim);
                } else {
                    $db->exec("SELECT claimq_complete('$claim[0]',
                        '$claim[1]')");
                }
                $said = 'fine';
            } catch (Exception $error) {
                $said = Claimq::code($error);
            }
            $left = $db->querySingle('SELECT count(*) FROM claimq_batch');
            echo "$how: $said, $left left\n";
        }
    },
    // With `request` what is run twice is done once.
    'request' => function () use ($path) {
        $db = fresh($path, 0);
        foreach (['a', 'b', 'c'] as $request) {
            $statement = $db->prepare(
                "SELECT claimq_submit('l', 'x', 'request', ?)");
            $statement->bindValue(1, $request);
            $statement->execute()->fetchArray();
        }
        echo 'submit: ', jobs($db, 'ready'), "\n";
        $statement = $db->prepare(CLAIM . ' WHERE request=?');
        $statement->bindValue(1, 'd');
        $result = $statement->execute();
        $n = 0;
        while ($result->fetchArray()) {
            $n++;
        }
        echo "claim: $n of ", jobs($db, 'active'), "\n";
    },
    // A transaction that has read cannot write after another has committed.
    'begin' => function () use ($path) {
        $db = fresh($path, 0);
        $other = Claimq::open($path);
        $db->exec('BEGIN');
        $db->querySingle('SELECT count(*) FROM orders');
        $other->exec('INSERT INTO orders VALUES (1)');
        try {
            Claimq::value($db, "SELECT claimq_submit('l', 'x')");
            echo "BEGIN: fine\n";
        } catch (Exception $error) {
            echo 'BEGIN: ', str_contains($error->getMessage(), 'locked')
                ? 'locked' : $error->getMessage(), "\n";
        }
        $db->exec('ROLLBACK');
        Claimq::transaction($db, function () use ($db) {
            $db->querySingle('SELECT count(*) FROM orders');
            Claimq::value($db, "SELECT claimq_submit('l', 'x')");
        });
        echo 'transaction: ', jobs($db, 'ready'), "\n";
    },
    // Values come through as they are.
    'quote' => function () use ($path) {
        $db = fresh($path, 0);
        foreach (["it's ?", "a\0b", 42, 1.5, null, "x'; --"] as $value) {
            Claimq::value($db, "SELECT claimq_submit('l', ?)", $value);
        }
        echo $db->querySingle("SELECT group_concat(quote(payload), ' ') FROM
            (SELECT payload FROM claimq_job ORDER BY job_id)"), "\n";
    },
    // Ctrl-C reaches all processes of the terminal; the one that renews stays,
    // and gives back what is not begun.
    'interrupt' => function () use ($path) {
        posix_setsid();
        $db = fresh($path, 2);
        $worker = new ClaimqWorker($path, 'l', fn () => posix_kill(0, SIGINT),
            batch: 2, log: fn () => null);
        echo 'begun: ', $worker->run(), "\n";
        echo 'completed: ', jobs($db, 'completed'), "\n";
        echo 'ready: ', jobs($db, 'ready'), "\n";
    },
    'pdo' => function () use ($path) {
        try {
            Claimq::load(new PDO("sqlite:$path"));
        } catch (RuntimeException $error) {
            echo $error->getMessage(), "\n";
        }
    },
    'load' => function () use ($path) {
        try {
            Claimq::open($path);
        } catch (RuntimeException $error) {
            echo substr($error->getMessage(), 0, 45), "\n";
        }
    },
];
$traps[$name]();
