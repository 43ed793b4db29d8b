// What TypeScript makes of the package: it is compiled, not run.
import * as claimq from 'claimq';
import whole from 'claimq';

const path: string = claimq.getLoadablePath();
const db = claimq.open('app.db', {driver: 'better-sqlite3', timeoutMs: 1000});
claimq.load(db);
const n: number = claimq.transaction(db, () => 1);

const worker = new claimq.Worker('app.db', 'mail', async job => {
  const id: number = job.id + job.attempt;
  job.lost.addEventListener('abort', () => console.log(id));
  if (job.stopping.aborted) throw new claimq.Retry('later', 5000);
  if (job.row.lane === '') throw new claimq.Reject('why');
  job.complete(db);
  return {id};
}, {owner: 'me', leaseMs: 30000, batch: 10, capabilities: ['gpu'],
  partition: 1, timeoutMs: 1000, signals: false, driver: 'node:sqlite'});
const begun: Promise<number> = worker.run();
worker.stop();

const lost: claimq.Code | undefined = claimq.code(new Error(path));
console.log(n, begun, lost === 'claim_lost', whole.code);

// @ts-expect-error a lane has a name
new claimq.Worker('app.db', 1, () => {});
// @ts-expect-error there is no such option
new claimq.Worker('app.db', 'mail', () => {}, {lease: 1});
// @ts-expect-error there is no such code
const wrong: boolean = lost === 'claim_list';
