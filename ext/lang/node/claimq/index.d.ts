/** What SQLite stores. */
export type Value = null | number | bigint | string | Uint8Array;

export type Row = Record<string, Value>;

/** A prepared statement of better-sqlite3, node:sqlite or bun:sqlite. */
export interface Statement {
  /** The rows: R says what they are. */
  all<R = Row>(...values: Value[]): R[];
  run(...values: Value[]): unknown;
}

/** A connection of better-sqlite3, node:sqlite or bun:sqlite: what all three
 *  of them have. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  loadExtension(path: string): unknown;
  close(): void;
}

/** What claimq needs of a connection to make calls. */
export interface Caller {
  prepare(sql: string): { all(...values: any[]): unknown[] };
}

export type Driver = 'better-sqlite3' | 'node:sqlite' | 'bun:sqlite';

export type Code = 'bad_argument' | 'not_initialised' | 'schema_mismatch'
  | 'claim_lost' | 'not_found' | 'conflict' | 'no_slot'
  | 'request_reused' | 'not_reclaimable' | 'too_large'
  | 'read_only' | 'unsafe_plan' | 'nested_write' | 'in_transaction'
  | 'clock_required' | 'unsupported';

/** The path of the extension for this platform. */
export function getLoadablePath(): string;

/** Load claimq into a connection that can load extensions. */
export function load(db: { loadExtension(path: string): unknown }): void;

/** PRAGMA synchronous: with 'normal', a power cut can undo the last commits. */
export type Synchronous = 'normal' | 'full';

/** Open a database for claimq: loaded, WAL, busy timeout, initialised.
 *  synchronous: 'full'. */
export function open(file: string, options?: { driver?: Driver;
  timeoutMs?: number; synchronous?: Synchronous }): Database;

/** BEGIN IMMEDIATE, f(), COMMIT; ROLLBACK if f throws. */
export function transaction<T>(db: { exec(sql: string): unknown },
  f: () => T): T;

/** The options of claimq_submit; null and undefined are left out. */
export interface SubmitOptions {
  /** The name of a handler: only a worker that has it gets the job. */
  task?: string | null;
  priority?: number | null;
  capabilities?: string[] | null;
  sourceKey?: string | null;
  availableAtMs?: number | null;
  delayMs?: number | null;
  maxAttempts?: number | null;
  backoffMs?: number | null;
  backoffFactor?: number | null;
  backoffMaxMs?: number | null;
  maxReclaims?: number | null;
  maxRuntimeMs?: number | null;
  reclaim?: 'auto' | 'grant' | null;
  admission?: 'auto' | 'grant' | null;
  partition?: number | null;
  groupKey?: string | null;
  flowId?: string | null;
  namespace?: string | null;
  instanceTag?: string | null;
  headers?: Record<string, unknown> | null;
  after?: number[] | null;
  onFailure?: 'cancel' | 'run' | null;
  uniqueForMs?: number | null;
  onDuplicate?: 'keep' | 'replace' | 'refuse' | null;
  nowMs?: number | null;
  request?: string | null;
}

/** Submit a job; returns its id.  Text and bytes are stored as they are,
 *  anything else as JSON. */
export function submit<T = unknown>(db: Caller, lane: string, payload: T,
  options?: SubmitOptions): number;

/** The code of an error of claimq; undefined for all other errors. */
export function code(error: unknown): Code | undefined;

/** T is what `json` is. */
export interface Job<T = unknown> {
  readonly id: number;
  readonly lane: string;
  readonly payload: Value;
  /** The payload, parsed as JSON. */
  readonly json: T;
  /** The headers, parsed; an empty object if there are none. */
  readonly headers: Record<string, unknown>;
  /** The `task` that it was submitted with. */
  readonly task: string | null;
  /** 0 is the first. */
  readonly attempt: number;
  /** All columns of the claim. */
  readonly row: Row;
  /** Aborted when the job was taken over, cancelled or revoked. */
  readonly lost: AbortSignal;
  /** Aborted when the worker is about to end. */
  readonly stopping: AbortSignal;
  /** Complete it on the handler's own connection, inside a transaction with
   *  the handler's writes: both happen, or neither. */
  complete(db: Caller): void;
  /** What the step of this name gave when it was run the first time, in
   *  whichever attempt; if it never was, run f and store what it gives, as
   *  JSON. */
  step<S>(name: string, f: () => S | Promise<S>): Promise<S>;
  /** Give the job back for that time, once: the handler begins anew, and then
   *  this returns at once.  Call sleeps in the same order each time. */
  sleep(ms: number): Promise<void>;
  /** Return if these jobs have ended, however; else give the job back until
   *  they have, when the handler begins anew. */
  waitFor(ids: number | number[]): Promise<void>;
}

export type Handler<T = unknown> = (job: Job<T>) => unknown;

export interface LoopOptions {
  owner?: string;
  leaseMs?: number;
  /** How many handlers run at once (1). */
  concurrency?: number;
  /** How long to wait for a lock. */
  timeoutMs?: number;
  /** Of the loop's own connections ('normal'). */
  synchronous?: Synchronous;
  /** Create the file if there is none (false). */
  create?: boolean;
  /** Stop on SIGTERM and SIGINT (true). */
  signals?: boolean;
  /** Gets begin, end, failures, locks and full disks (console.error). */
  log?: (text: string, level: 'info' | 'warn' | 'error') => void;
  driver?: Driver;
}

export interface WorkerOptions extends LoopOptions {
  /** How many jobs are taken at a time, if that is more than `concurrency`:
   *  the others wait in the worker. */
  batch?: number;
  capabilities?: string[];
  /** The partitions to take from (all of them). */
  partition?: number | number[] | null;
}

export {};              // what is not exported here is not exported

declare class Loop {
  /** Work until stop() or a signal; how many jobs were begun. */
  run(): Promise<number>;
  /** Work until nothing can be claimed now; how many jobs were begun. */
  drain(): Promise<number>;
  stop(): void;
}

/** T is the payload of its jobs, parsed as JSON. */
export class Worker<T = unknown> extends Loop {
  constructor(file: string, lanes: string | string[],
    handler: Handler<T> | null | undefined, options?: WorkerOptions);
  constructor(file: string, lanes: string | string[],
    options?: WorkerOptions);
  /** The handler of jobs that were submitted with this task. */
  task<U = T>(name: string, handler: Handler<U>): this;
}

/** A row of a claim; T is what `json` is. */
export interface Message<T = unknown> {
  readonly row: Row;
  readonly payload: Value;
  /** The payload, parsed as JSON. */
  readonly json: T;
  /** The headers, parsed; an empty object if there are none. */
  readonly headers: Record<string, unknown>;
}

/** The messages of a claim, in order. */
export interface Messages<T = unknown> extends Iterable<Message<T>> {
  readonly messages: Message<T>[];
  /** Aborted when the claim was taken over or revoked. */
  readonly lost: AbortSignal;
  /** Aborted when the loop is about to end. */
  readonly stopping: AbortSignal;
  /** All columns of the first message. */
  readonly row: Row;
}

/** Messages of one partition of an outbox. */
export interface Batch<T = unknown> extends Messages<T> {
  readonly partition: number;
  /** If the handler fails later, this message does not come again, provided
   *  that those before it are done as well. */
  done(message: Message<T>): void;
}

/** What is next of one conversation. */
export interface Turn<T = unknown> extends Messages<T> {
  readonly session: string;
}

/** The messages of each partition in order, a batch at a time; with
 *  concurrency, of several partitions at once. */
export class Outbox<T = unknown> extends Loop {
  constructor(file: string, queue: string,
    handler: (batch: Batch<T>) => unknown, options?: LoopOptions & {
      /** Of a batch; as claimq_queue says. */
      max?: number | null;
      partition?: number | null;
    });
}

/** Each conversation in order, one turn at a time; with concurrency, of several
 *  conversations at once. */
export class Session<T = unknown> extends Loop {
  constructor(file: string, handler: (turn: Turn<T>) => unknown,
    options?: LoopOptions & {
      /** Only this one. */
      session?: string | null;
      max?: number | null;
    });
}

/** Holds the subject of a contest. */
export interface Guard {
  readonly fencingToken: number;
  /** Aborted when somebody else may hold it. */
  readonly lost: AbortSignal;
  /** All columns of the claim. */
  readonly row: Row;
  release(): Promise<void>;
}

/** One holder of a name. */
export class Contest {
  constructor(file: string, label: string, options?:
    Omit<LoopOptions, 'concurrency' | 'signals'> & { kind?: number });
  /** Wait until the name is free, and hold it; renewed until release(). */
  acquire(): Promise<Guard>;
  /** null: somebody else holds it, and wait is false. */
  acquire(options: { wait?: boolean }): Promise<Guard | null>;
  /** Hold it while f runs; returns what f returns. */
  hold<T>(f: (guard: Guard) => T | Promise<T>): Promise<T>;
}

/** Thrown by sleep() and waitFor(): a handler that catches it throws it on. */
export class Pause extends Error {}

/** Thrown or returned by a handler: give the job back, for delayMs if it is
 *  given; no attempt is used. */
export class Release extends Error {
  constructor(delayMs?: number | null);
}

/** Thrown by a handler: try again, after delayMs if it is given. */
export class Retry extends Error {
  constructor(reason?: string, delayMs?: number | null);
}

/** Thrown by a handler: never try again; the job becomes a dead letter. */
export class Reject extends Error {}
