/** Users of the embedded ClickHouse and their limits. */
import { timingSafeEqual } from 'node:crypto';
import { ClickHouseException } from './embedded-clickhouse.ts';
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
  readonly memoryBytes: number;
  readonly rowsToRead: number;
  readonly resultRows: number;
  readonly resultBytes: number;
  /** Shared by the users with the same limits. */
  readonly turns: TurnLimits;
}

export const analystLimits: ReaderLimits = {
  seconds: 60,
  memoryBytes: 300 * 1024 * 1024,
  rowsToRead: 1_000_000_000,
  resultRows: 1_000_000,
  /** Held in memory until it is sent. */
  resultBytes: 64 * 1024 * 1024,
  turns: { quick: 2, slow: 2, slowAfterMs: 5000, waiting: 100 },
};

/** Limits of the gateway's own queries: a person waits for the answer. */
export const gatewayLimits: ReaderLimits = {
  ...analystLimits,
  seconds: 15,
  resultRows: 200_000,
  turns: { quick: 4, slow: 0, slowAfterMs: 15_000, waiting: 1000 },
};

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

/**
 * The settings of a query of this user.
 * @throws ClickHouseException 452 for a setting that readers may not use, or beyond a limit
 */
export function settingsOf(
  { limits }: User,
  requestedSettings: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  return limits === undefined ? requestedSettings : withinLimits(limitSettings(limits), requestedSettings);
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
      const wanted = Number(value);
      if (!(wanted > 0 && wanted <= limit)) throw refused(name, `should be between 1 and ${limit}`);
      inForce.set(name, value);
    } else if (name.endsWith('overflow_mode') && inForce.has(name)) {
      // A result that ends silently at a limit would be taken for the complete one.
      if (value !== 'throw' && value !== 'break') throw refused(name, 'is throw or break');
      inForce.set(name, value);
    } else if (forReaders.has(name)) inForce.set(name, value);
    else throw refused(name, 'is not for readers');
  }
  return inForce;
}

function refused(name: string, why: string): ClickHouseException {
  return new ClickHouseException(
    452,
    `Code: 452. DB::Exception: Setting ${name} ${why}. (SETTING_CONSTRAINT_VIOLATION)`,
  );
}
