/** A connection of better-sqlite3, node:sqlite or bun:sqlite. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): { all(...values: any[]): any[] };
  loadExtension(path: string): unknown;
  close(): void;
}

export type Driver = 'better-sqlite3' | 'node:sqlite' | 'bun:sqlite';

export type Code = 'bad_argument' | 'not_initialised' | 'schema_mismatch'
  | 'claim_lost' | 'not_found' | 'conflict' | 'not_reclaimable' | 'too_large'
  | 'read_only' | 'unsafe_plan' | 'nested_write' | 'in_transaction'
  | 'clock_required' | 'unsupported';

/** The path of the extension for this platform. */
export function getLoadablePath(): string;

/** Load claimq into a connection that can load extensions. */
export function load(db: { loadExtension(path: string): unknown }): void;

/** Open a database for claimq: loaded, WAL, busy timeout, initialised. */
export function open(file: string,
  options?: { driver?: Driver; timeoutMs?: number }): any;

/** BEGIN IMMEDIATE, f(), COMMIT; ROLLBACK if f throws. */
export function transaction<T>(db: { exec(sql: string): unknown },
  f: () => T): T;

/** The code of an error of claimq; undefined for all other errors. */
export function code(error: unknown): Code | undefined;

export interface Job {
  id: number;
  payload: any;
  /** 0 is the first. */
  attempt: number;
  /** All columns of the claim. */
  row: Record<string, any>;
  /** Aborted when somebody else has taken the job over. */
  lost: AbortSignal;
  /** Aborted when the worker is about to end. */
  stopping: AbortSignal;
  /** Complete it on the handler's own connection, inside a transaction with
   *  the handler's writes: both happen, or neither. */
  complete(db: Pick<Database, 'prepare'>): void;
}

export interface WorkerOptions {
  owner?: string;
  leaseMs?: number;
  /** How many jobs are taken at a time; they are worked on one by one. */
  batch?: number;
  capabilities?: string[];
  partition?: number;
  /** How long to wait for a lock. */
  timeoutMs?: number;
  /** Stop on SIGTERM and SIGINT (true). */
  signals?: boolean;
  driver?: Driver;
}

export class Worker {
  constructor(file: string, lane: string,
    handler: (job: Job) => unknown, options?: WorkerOptions);
  /** Work until stop() or a signal; how many jobs were begun. */
  run(): Promise<number>;
  stop(): void;
}

/** Thrown by a handler: try again, after delayMs if it is given. */
export class Retry extends Error {
  constructor(reason?: string, delayMs?: number | null);
}

/** Thrown by a handler: never try again; the job becomes a dead letter. */
export class Reject extends Error {}
