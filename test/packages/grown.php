<?php
// What a grown worker does, with Claimq.php.
//
//     php grown.php CLAIMQ.PHP NAME DATABASE
//
// Prints what happens, which package_php.test compares.
declare(strict_types=1);
[, $package, $name, $path] = $argv;
require $package;

$quiet = function (): void {
};

/** Wait for what comes in any case, for five minutes at most. */
function limit(string $what, callable $f): void
{
    $until = microtime(true) + 300;
    while (!$f()) {
        if (microtime(true) > $until) {
            throw new RuntimeException("never: $what");
        }
        usleep(10000);
    }
}

/** The rows of a question, as lines of words. */
function lines(SQLite3 $db, string $sql): string
{
    return implode("\n", array_map(fn ($row) => trim(implode(' ', $row)),
        Claimq::rows($db, $sql))) . "\n";
}

$parts = [
    // A worker that says nothing takes jobs of all partitions; a number or a
    // list restricts it.
    'partition' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        foreach ([0, 5, 7, 9] as $number) {
            Claimq::value($db, "SELECT claimq_submit('l', ?, 'partition', ?)",
                "$number", $number);
        }
        foreach ([[7, 1], [[5, 9], 2], [null, 1]] as [$which, $count]) {
            $seen = [];
            $worker = new ClaimqWorker($path, 'l',
                function (ClaimqJob $job) use (&$seen, $count, &$worker) {
                    $seen[] = $job->payload;
                    if (count($seen) === $count) {
                        $worker->stop();
                    }
                }, partition: $which, log: $quiet);
            $worker->run();
            echo json_encode($which), ': ', implode(' ', $seen), "\n";
        }
    },
    // Payloads and headers come back as they were given.
    'submit' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        $ids = [Claimq::submit($db, 'l', ['to' => ['you', 1]],
            headers: ['trace' => 'x'], priority: 3, sourceKey: null),
            Claimq::submit($db, 'l', 'text', delay_ms: 0, priority: 2),
            Claimq::submit($db, 'l', 7, capabilities: ['gpu'], headers: [])];
        (new ClaimqWorker($path, 'l', function (ClaimqJob $job) use (&$ids) {
            $ids = array_diff($ids, [$job->id]);
            echo $job->lane, ' ', json_encode($job->payload === 'text' ? 't'
                : $job->json()), ' ', json_encode($job->headers()), ' ',
                json_encode($job->task()), "\n";
        }, capabilities: ['gpu'], log: $quiet))->drain();
        echo count($ids), "\n";
        try {
            Claimq::submit($db, 'l', 'x', maxAtempts: 3);
        } catch (Exception $error) {
            echo Claimq::code($error), "\n";
        }
    },
    // Of several lanes the first goes first, each time anew.
    'lanes' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        Claimq::submit($db, 'low', 'low');
        Claimq::submit($db, 'high', 'high');
        $worker = new ClaimqWorker($path, ['high', 'low'],
            function (ClaimqJob $job) use ($db) {
                echo $job->payload, "\n";
                if ($job->payload === 'high') {
                    Claimq::submit($db, 'high', 'second');
                }
            }, log: $quiet);
        $begun = $worker->drain();
        echo "begun: $begun\n";
    },
    // A worker gets the tasks that it knows; others wait for a newer one.
    'tasks' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        Claimq::submit($db, 'l', ['n' => 1], task: 'mail.welcome',
            capabilities: ['gpu']);
        Claimq::submit($db, 'l', ['n' => 2], task: 'mail.new');
        Claimq::submit($db, 'l', 'plain', maxAttempts: 1);
        $said = [];
        $worker = new ClaimqWorker($path, 'l', capabilities: ['gpu'],
            log: function (string $line) use (&$said) {
                $said[] = $line;
            });
        $worker->task('mail.welcome', function (ClaimqJob $job) {
            echo $job->task(), ' ', $job->json()['n'], "\n";
        });
        $begun = $worker->drain();
        echo "begun: $begun\n";
        echo lines($db, 'SELECT payload, state, last_error FROM claimq_job
            WHERE job_id>1');
        echo count(preg_grep('/job 3: no handler/', $said)), "\n";
        echo lines($db, "SELECT reason FROM claimq_why('lane', 'l')");
        (new ClaimqWorker($path, 'l', log: $quiet))->task('mail.new',
            function (ClaimqJob $job) {
                echo 'new ', $job->json()['n'], "\n";
            })->drain();
    },
    // Given back: no attempt is used.
    'release' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        Claimq::submit($db, 'l', 0);
        Claimq::submit($db, 'l', 1);
        $again = 0;
        (new ClaimqWorker($path, 'l', function (ClaimqJob $job) use (&$again) {
            if ($job->json() === 1) {
                throw new ClaimqRelease(1e9);
            }
            if (++$again < 3) {
                throw new ClaimqRelease();
            }
        }, log: $quiet))->drain();
        echo "$again\n", lines($db, 'SELECT state, attempt_index, attempts,
            last_error FROM claimq_job');
    },
    // A name that was mistyped is an error, and no new file.
    'create' => function () use ($path, $quiet) {
        $worker = fn (bool $create) => new ClaimqWorker($path, 'l',
            fn () => null, create: $create, log: $quiet);
        try {
            $worker(false)->run();
        } catch (RuntimeException $error) {
            echo str_replace($path, 'X', $error->getMessage()), "\n";
        }
        var_dump(file_exists($path), $worker(true)->drain(),
            file_exists($path));
    },
    // The worker's connection; a connection of one's own is FULL (2).
    'synchronous' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        $own = fn () => $this->db->querySingle('PRAGMA synchronous');
        echo $db->querySingle('PRAGMA synchronous'), "\n";
        foreach (['normal', 'full'] as $how) {
            Claimq::submit($db, 'l', 'x');
            (new ClaimqWorker($path, 'l', function (ClaimqJob $job) use ($own) {
                echo $own->call($job), "\n";
            }, synchronous: $how, log: $quiet))->drain();
        }
    },
    // What it says: that it starts and stops, and each failure with its trace.
    'log' => function () use ($path) {
        $db = Claimq::open($path);
        Claimq::submit($db, 'l', 'x', maxAttempts: 1);
        $said = [];
        (new ClaimqWorker($path, ['k', 'l'], fn ($job) => $job->json(),
            owner: 'me', log: function (string $line) use (&$said) {
                $said[] = $line;
            }))->drain();
        [$start, $failed, $stop] = $said;
        echo "$start\n$stop\n", strtok($failed, "\n"), "\n";
        var_dump(substr_count($failed, "\n") > 3);
        echo lines($db, "SELECT error_class, reason LIKE 'JsonException: %'
            FROM claimq_letter");
    },
    // As many processes as it says, and one that renews for all of them; what
    // is not begun is given back when it stops, while the others are at work.
    'concurrency' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        $db->exec('CREATE TABLE at_work(pid, renewing)');
        for ($n = 0; $n < 9; $n++) {
            Claimq::submit($db, 'l', $n);
        }
        $db->close();
        $worker = new ClaimqWorker($path, 'l', function () use ($path) {
            $db = Claimq::open($path);
            $renewing = substr_count((string) shell_exec('ps -o args= --ppid '
                . posix_getppid()), 'ClaimqHolder::renew');
            $db->exec('INSERT INTO at_work VALUES (' . getmypid()
                . ", $renewing)");
            $is = fn ($sql, $n) => limit($sql, fn () => $db->querySingle(
                "SELECT count(*) FROM $sql") === $n);
            $is('(SELECT DISTINCT pid FROM at_work)', 3);
            posix_kill(posix_getppid(), SIGTERM);
            $is("claimq_job WHERE state<>'active' AND attempts=0", 6);
        }, concurrency: 3, batch: 2, log: $quiet);
        echo 'begun: ', $worker->run(), "\n";
        $db = Claimq::open($path);
        echo lines($db, 'SELECT state, attempt_index, count(*) FROM claimq_job
            GROUP BY 1, 2');
        echo lines($db, "SELECT DISTINCT 'renewing: ' || renewing FROM at_work");
        $db->close();
        $worker = new ClaimqWorker($path, 'l', fn () => null, concurrency: 2,
            log: $quiet);
        echo 'drained: ', $worker->drain(), "\n";
    },
    // A process that dies is replaced; an error that waiting does not cure ends
    // all of them.
    'processes' => function () use ($path) {
        $db = Claimq::open($path);
        Claimq::submit($db, 'l', 'x');
        $db->close();
        $said = [];
        $log = function (string $line) use (&$said) {
            $said[] = $line;
        };
        (new ClaimqWorker($path, 'l', function (ClaimqJob $job) {
            posix_kill(...$job->row['reclaim_count'] === 0
                ? [getmypid(), SIGKILL] : [posix_getppid(), SIGTERM]);
        }, concurrency: 2, leaseMs: 1000, log: $log))->run();
        echo count(preg_grep('/has died: another begins/', $said)), "\n";
        $db = Claimq::open($path);
        echo lines($db, 'SELECT state, reclaim_count FROM claimq_job');
        Claimq::value($db, "SELECT claimq_init('clock', 'explicit')");
        $db->close();
        try {
            (new ClaimqWorker($path, 'l', fn () => null, concurrency: 2,
                log: $log))->run();
        } catch (RuntimeException $error) {
            echo Claimq::code($error), "\n";
        }
    },
    // A cancelled job is lost at once, though its lease is long.
    'cancel' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        $id = Claimq::submit($db, 'l', 'long');
        Claimq::submit($db, 'l', 'next');
        (new ClaimqWorker($path, 'l', function (ClaimqJob $job) use ($db, $id) {
            if ($job->payload === 'long') {
                echo Claimq::value($db, "SELECT claimq_cancel(?, 'force', 1)",
                    $id), "\n";
                limit('lost', $job->lost(...));
            }
            echo $job->payload, "\n";
        }, leaseMs: 600000, log: $quiet))->drain();
        echo lines($db, 'SELECT state FROM claimq_job');
    },
    // A batch that fails half-way goes on behind what is done; a partition
    // waits for no other.
    'outbox' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        Claimq::value($db, "SELECT claimq_queue('q', 2, 'backoff_ms', 1)");
        foreach (['a', 'b', 'c', 'd'] as $word) {
            Claimq::value($db, "SELECT claimq_publish('q', ?, 'headers', ?)",
                json_encode($word), '{"n":1}');
        }
        Claimq::value($db, "SELECT claimq_publish('q', 'other',
            'partition', 1)");
        $seen = [];
        $work = new ClaimqOutbox($path, 'q', function (ClaimqBatch $batch) use (
            &$seen,
        ) {
            $all = $batch->messages;
            if ($batch->row['partition'] === 1) {
                $seen[] = "1: {$all[0]->payload}";
                throw new ClaimqReject('poison');
            }
            $words = array_map(fn ($message) => $message->json(), $all);
            $seen[] = '0: ' . implode(' ', $words) . ' '
                . $all[0]->headers()['n'];
            if ($words[0] === 'a') {
                $batch->done($all[0]);
                $batch->done($all[2]);  // not b: it comes again, and c with it
                throw new RuntimeException('half-way');
            }
        }, max: 3, log: $quiet);
        limit('all', fn () => $work->drain() >= 0 && $db->querySingle("SELECT
            processed_seq FROM claimq_partition WHERE queue='q'
            AND partition=0") === 4);
        sort($seen);
        echo implode("\n", $seen), "\n";
        echo lines($db, 'SELECT scope, reason FROM claimq_letter');
    },
    // The work of a conversation comes in order, also after a failure.
    'session' => function () use ($path, $quiet) {
        $db = Claimq::open($path);
        $db->exec('CREATE TABLE seen(text)');
        foreach ([['s1', 'hi'], ['s2', 'hey'], ['s1', 'you']] as $words) {
            Claimq::value($db, 'SELECT claimq_enqueue(?, ?)', ...$words);
        }
        $failed = false;
        $work = new ClaimqSession($path, function (ClaimqMessages $turn) use (
            $db, &$failed,
        ) {
            $session = $turn->row['session'];
            if ($session === 's1' && !$failed) {
                $failed = true;
                throw new ClaimqRetry('not yet', 1);
            }
            $db->exec('INSERT INTO seen VALUES (' . Claimq::quote(
                "$session {$turn->messages[0]->payload}") . ')');
        }, log: $quiet);
        limit('all', fn () => $work->drain() >= 0 && $db->querySingle(
            'SELECT count(*) FROM claimq_batch') === 0);
        echo lines($db, "SELECT text FROM seen ORDER BY text LIKE 's2%',
            rowid");
    },
    // One holder at a time, which is renewed, and learns that it holds no more.
    'contest' => function () use ($path) {
        $db = Claimq::open($path);
        $expires = fn () => $db->querySingle(
            'SELECT expires_at_ms FROM claimq_leases');
        (new ClaimqContest($path, 'short', leaseMs: 3000))->acquire(
            function () use ($expires) {
                $first = $expires();
                limit('renewed', fn () => $expires() > $first);
            });
        $one = new ClaimqContest($path, 'leader');
        $two = new ClaimqContest($path, 'leader');
        $one->acquire(function (ClaimqGuard $guard) use ($db, $two) {
            var_dump($two->acquire(fn () => 'both', wait: false));
            Claimq::value($db, 'SELECT claimq_revoke(?)', $guard->claim[0]);
            limit('lost', $guard->lost(...));
            echo $two->acquire(fn ($other) => $other->fencingToken()
                > $guard->fencingToken() ? "later\n" : "wrong\n");
        });
        echo $db->querySingle('SELECT count(*) FROM claimq_leases'), "\n";
        // It waits until the name is free.
        $claim = $db->querySingle("SELECT claim_id, lease_token
            FROM claimq_contest('leader', 'other', 600000)", true);
        $free = proc_open(['sh', '-c', 'sleep 0.3; exec "$@"', 'sh',
            PHP_BINARY, '-d', 'sqlite3.extension_dir='
            . ini_get('sqlite3.extension_dir'), '-r', 'require $argv[1];
            Claimq::value(Claimq::open($argv[2]), "SELECT claimq_release(?, ?)",
                $argv[3], $argv[4]);', '--', $GLOBALS['package'], $path,
            ...array_values($claim)], [], $pipes);
        echo $two->acquire(fn () => "waited\n");
        proc_close($free);
    },
];
$parts[$name]();
