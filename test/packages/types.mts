// What TypeScript makes of the package: it is compiled, not run.
import {DatabaseSync} from 'node:sqlite';
import * as claimq from 'claimq';
import whole from 'claimq';

const path: string = claimq.getLoadablePath();
const db = claimq.open('app.db', {driver: 'better-sqlite3', timeoutMs: 1000,
  synchronous: 'normal'});
claimq.load(db);
const n: number = claimq.transaction(db, () => 1);
const rows: claimq.Row[] = db.prepare('SELECT ?').all(1);
const named = db.prepare('SELECT 1 AS id').all<{id: number}>()[0].id + 1;
const other = new DatabaseSync('app.db', {allowExtension: true});
claimq.load(other);

interface Mail { to: string }
const job: number = claimq.transaction(other, () =>
  claimq.submit<Mail>(other, 'mail', {to: 'a'}, {task: 'mail.welcome',
    maxAttempts: 3, capabilities: ['gpu'], headers: {a: 1}, after: [1],
    delayMs: null}));

const worker = new claimq.Worker<Mail>('app.db', ['urgent', 'mail'],
  async job => {
    const id: number = job.id + job.attempt;
    const to: string = job.json.to + job.lane + job.task;
    job.lost.addEventListener('abort', () => console.log(id, to));
    if (job.stopping.aborted) throw new claimq.Retry('later', 5000);
    if (job.headers.trace) throw new claimq.Release(1000);
    if (job.row.lane === '') throw new claimq.Reject('why');
    const step: number = await job.step('one', async () => 1);
    job.complete(db);
    return {id, step};
  }, {owner: 'me', leaseMs: 30000, batch: 10, capabilities: ['gpu'],
    partition: [1, 2], timeoutMs: 1000, signals: false, driver: 'node:sqlite',
    concurrency: 4, create: true, synchronous: 'full',
    log: (text, level) => console.log(level === 'info', text)});
worker.task<number>('count', job => job.json + 1);
const begun: Promise<number> = worker.run();
const drained: Promise<number> = new claimq.Worker('app.db', 'mail',
  {concurrency: 2}).task('a', () => {}).drain();
worker.stop();

const outbox = new claimq.Outbox<Mail>('app.db', 'mail', async batch => {
  for (const message of batch) {
    const to: string = message.json.to + batch.partition;
    if (to !== '' && !batch.lost.aborted) batch.done(message);
  }
}, {max: 10, partition: 1, concurrency: 2});
const session = new claimq.Session<string>('app.db', turn => {
  const text: string = turn.session + turn.messages[0].json;
  return text;
}, {session: 'chat'});
const both: Promise<number[]> = Promise.all([outbox.run(), session.drain()]);
const contest = new claimq.Contest('app.db', 'leader', {leaseMs: 1000});
const token: number = await contest.hold(guard => guard.fencingToken);
const guard: claimq.Guard | null = await contest.acquire({wait: false});
await guard?.release();
(await contest.acquire()).lost.throwIfAborted();
console.log(both, token);

const lost: claimq.Code | undefined = claimq.code(new Error(path));
console.log(n, begun, lost === 'claim_lost', whole.code, rows, named, job,
  drained);

// @ts-expect-error what open() returns is no any
db.nonsense();
// @ts-expect-error a row is no any
rows[0].nonsense.more;
// @ts-expect-error the payload has no such member
new claimq.Worker<Mail>('app.db', 'mail', job => job.json.from);
// @ts-expect-error of a payload without a type nothing is known
new claimq.Worker('app.db', 'mail', job => job.json.to);
// @ts-expect-error claimq_submit has no such option
claimq.submit(db, 'mail', '', {nonsense: 1});
// @ts-expect-error there is no such class
claimq.Loop;
// @ts-expect-error a lane has a name
new claimq.Worker('app.db', 1, () => {});
// @ts-expect-error there is no such option
new claimq.Worker('app.db', 'mail', () => {}, {lease: 1});
// @ts-expect-error there is no such code
const wrong: boolean = lost === 'claim_list';
