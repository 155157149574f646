/** Users of the embedded ClickHouse and their limits. */
import { timingSafeEqual } from 'node:crypto';
import { ClickHouseException } from './embedded-clickhouse.ts';
import { queryLimits } from './engine-access.ts';
import { LONGEST_TEXT } from './normal-form.ts';
import { readerSettings } from './reader-settings.ts';
import type { TurnLimits } from './turns.ts';

export interface User {
  readonly name: string;
  readonly password: string;
  /** Undefined: a writer, with the engine's rights of one. With limits, a user only reads. */
  readonly limits: ReaderLimits | undefined;
  /** Whether the sender records the queries. Those of every other user with limits are recorded before execution. */
  readonly recordedByCaller?: boolean;
}

/** For each query. */
export interface ReaderLimits {
  readonly seconds: number;
  /** Of the one query that runs in the place for large ones. */
  readonly memoryBytes: number;
  /** Of each other query. One that needs more is executed again in the place for large queries. */
  readonly smallMemoryBytes: number;
  readonly rowsToRead: number;
  readonly resultRows: number;
  readonly resultBytes: number;
  /** Shared by the users with the same limits. */
  readonly turns: TurnLimits;
}

const MIB = 1024 * 1024;

export const analystLimits: ReaderLimits = {
  seconds: queryLimits.max_execution_time,
  memoryBytes: queryLimits.max_memory_usage,
  smallMemoryBytes: 64 * MIB,
  rowsToRead: queryLimits.max_rows_to_read,
  resultRows: queryLimits.max_result_rows,
  /** Held in memory until it is sent. */
  resultBytes: queryLimits.max_result_bytes,
  turns: { quick: 2, slow: 2, slowAfterMs: 5000, waiting: 100 },
};

/** Limits of the gateway's own queries: a person waits for the answer. */
export const gatewayLimits: ReaderLimits = {
  ...analystLimits,
  seconds: 15,
  smallMemoryBytes: 100 * MIB,
  resultRows: 200_000,
  turns: { quick: 4, slow: 0, slowAfterMs: 15_000, waiting: 1000 },
};

/** The place for large queries: one at a time of all users with the same turns. */
export const largeTurns: TurnLimits = { quick: 1, slow: 0, slowAfterMs: 10_000, waiting: 100 };

/**
 * The most memory that all queries of readers use at one time. The engine's own limit is above it, so that a query that
 * needs too much memory meets its own limit, and never takes memory that the writer or another user needs.
 */
export const readersMemoryBytes = [analystLimits, gatewayLimits]
  .map(({ memoryBytes, smallMemoryBytes, turns }) => memoryBytes + (turns.quick + turns.slow) * smallMemoryBytes)
  .reduce((sum, bytes) => sum + bytes);

/** The user with this name and password. @throws ClickHouseException 516 */
export function authenticated(users: readonly User[], name: string, password: string): User {
  const user = users.find((one) => one.name === name);
  if (user !== undefined && same(user.password, password)) return user;
  throw new ClickHouseException(
    516,
    `Code: 516. DB::Exception: ${name}: Authentication failed: password is incorrect, or there is no user with such name. (AUTHENTICATION_FAILED)`,
  );
}

function same(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}

/** Initial settings of a limited user's query; the query may only lower them. */
function limitSettings(limits: ReaderLimits): ReadonlyMap<string, string> {
  return new Map(
    Object.entries({
      max_execution_time: limits.seconds,
      max_memory_usage: limits.memoryBytes,
      max_rows_to_read: limits.rowsToRead,
      max_result_rows: limits.resultRows,
      max_result_bytes: limits.resultBytes,
      max_query_size: LONGEST_TEXT,
      // Counted with subqueries and aliases expanded: planning 20,000 takes about a second, and cannot be stopped.
      max_expanded_ast_elements: 20_000,
      result_overflow_mode: 'throw',
      timeout_overflow_mode: 'throw',
      max_temporary_data_on_disk_size_for_query: 1024 ** 3,
      max_bytes_before_external_group_by: Math.floor(limits.memoryBytes / 2),
      max_bytes_before_external_sort: Math.floor(limits.memoryBytes / 2),
    }).map(([name, value]) => [name, String(value)]),
  );
}

/** Settings of inserts, which some drivers send with every query. They are ignored for readers. */
const ofInserts: ReadonlySet<string> = new Set(['async_insert', 'wait_for_async_insert']);

/** Further settings that a reader's query may have, with their largest value if there is one. */
const forReaders = new Map<string, number | undefined>([
  ...readerSettings.map((name) => [name, undefined] as const),
  ['max_block_size', 1_000_000],
  ['max_threads', 16],
]);

export interface ReaderAttempt {
  readonly settings: ReadonlyMap<string, string>;
  /** Whether it needs the place for large queries. */
  readonly isLarge: boolean;
}

/**
 * How a query with these settings is executed: with little memory, and again with more when that was too little; once
 * when it requests an amount.
 * @throws ClickHouseException 452 for a setting that readers may not use, or beyond a limit
 */
export function attemptsOf(
  limits: ReaderLimits,
  requestedSettings: ReadonlyMap<string, string>,
): readonly ReaderAttempt[] {
  const settings = withinLimits(limitSettings(limits), requestedSettings);
  const isLarge = Number(settings.get('max_memory_usage')) > limits.smallMemoryBytes;
  if (!isLarge || requestedSettings.has('max_memory_usage')) return [{ settings, isLarge }];
  const small = new Map([...settings, ['max_memory_usage', String(limits.smallMemoryBytes)]]);
  return [
    { settings: small, isLarge: false },
    { settings, isLarge },
  ];
}

/** The limits, changed and extended by the requested settings. @throws ClickHouseException 452, as above */
export function withinLimits(
  limits: ReadonlyMap<string, string>,
  requestedSettings: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const inForce = new Map(limits);
  for (const [name, value] of requestedSettings) {
    // Ignored: the query is read-only in any case.
    if ((name === 'readonly' && /^[12]$/.test(value)) || ofInserts.has(name)) continue;
    const limit = Number(inForce.get(name) ?? forReaders.get(name));
    if (name.startsWith('max_') && Number.isFinite(limit)) {
      const wanted = asStored(name, value);
      if (!(wanted > 0 && wanted <= limit)) throw refused(name, `should be between 1 and ${limit}`);
      inForce.set(name, String(wanted));
    } else if (name.endsWith('overflow_mode') && inForce.has(name)) {
      // A result that ends silently at a limit would be taken for the complete one.
      if (value !== 'throw' && value !== 'break') throw refused(name, 'is throw or break');
      inForce.set(name, value);
    } else if (forReaders.has(name)) inForce.set(name, value);
    else throw refused(name, 'is not for readers');
  }
  return inForce;
}

/** The number that ClickHouse stores for a limit: whole microseconds for a time, whole numbers else. 0 is no limit. */
function asStored(name: string, value: string): number {
  const unit = name === 'max_execution_time' ? 1e6 : 1;
  return Math.floor(Number(value) * unit) / unit;
}

function refused(name: string, why: string): ClickHouseException {
  return new ClickHouseException(
    452,
    `Code: 452. DB::Exception: Setting ${name} ${why}. (SETTING_CONSTRAINT_VIOLATION)`,
  );
}
