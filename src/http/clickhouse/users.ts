/** Who may ask the embedded ClickHouse, and how much. */
import { timingSafeEqual } from 'node:crypto';
import { ClickHouseException } from './embedded-clickhouse.ts';

export interface User {
  readonly name: string;
  readonly password: string;
  /** Undefined: may do anything. With limits, a user only reads. */
  readonly limits: Limits | undefined;
}

/** For each query. */
export interface Limits {
  readonly seconds: number;
  readonly memoryBytes: number;
  readonly rowsToRead: number;
  readonly resultRows: number;
  readonly resultBytes: number;
  /** Queries of this user that run at a time; more wait their turn. */
  readonly atOnce: number;
}

export const analystLimits: Limits = {
  seconds: 60,
  memoryBytes: 300 * 1024 * 1024,
  rowsToRead: 1_000_000_000,
  resultRows: 1_000_000,
  resultBytes: 256 * 1024 * 1024,
  atOnce: 2,
};

/** Of the gateway's own questions: a person waits for the answer. */
export const gatewayLimits: Limits = { ...analystLimits, seconds: 15, resultRows: 200_000, atOnce: 4 };

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

/** Settings that every query of a limited user starts from; its own may only be smaller. */
export function limitSettings(limits: Limits): ReadonlyMap<string, string> {
  return new Map(
    Object.entries({
      max_execution_time: limits.seconds,
      max_memory_usage: limits.memoryBytes,
      max_rows_to_read: limits.rowsToRead,
      max_result_rows: limits.resultRows,
      max_result_bytes: limits.resultBytes,
      result_overflow_mode: 'throw',
      timeout_overflow_mode: 'throw',
      max_temporary_data_on_disk_size_for_query: 1024 ** 3,
      max_bytes_before_external_group_by: Math.floor(limits.memoryBytes / 2),
      max_bytes_before_external_sort: Math.floor(limits.memoryBytes / 2),
    }).map(([name, value]) => [name, String(value)]),
  );
}

/** Those that change how a result looks, and nothing about what a query may do. */
const looks = /^(output_format_|input_format_|format_|date_time_|bool_|cast_|date_)\w+$/;
const others = new Set([
  'allow_experimental_analyzer',
  'apply_settings_from_server',
  'dialect',
  'empty_result_for_aggregation_by_empty_set',
  'extremes',
  'final',
  'group_by_use_nulls',
  'join_use_nulls',
  'limit',
  'log_comment',
  'max_block_size',
  'max_threads',
  'offset',
  'optimize_use_projections',
  'result_overflow_mode',
  'session_timezone',
  'timeout_overflow_mode',
  'totals_mode',
  'transform_null_in',
  'union_default_mode',
]);

/**
 * The settings in force for a query of this user.
 * @throws ClickHouseException 452 for a setting that is not for readers, or beyond a limit
 */
export function settingsOf(user: User, asked: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const { limits } = user;
  if (limits === undefined) return asked;
  const inForce = new Map(limitSettings(limits));
  for (const [name, value] of asked) {
    // It is read-only anyway.
    if (name === 'readonly' && /^[12]$/.test(value)) continue;
    const limit = Number(inForce.get(name));
    if (name.startsWith('max_') && Number.isFinite(limit)) {
      const wanted = Number(value);
      if (!(wanted > 0 && wanted <= limit)) throw refused(name, `should be between 1 and ${limit}`);
      inForce.set(name, value);
    } else if (looks.test(name) || others.has(name)) {
      // What breaks off silently would be taken for the whole.
      if (name.endsWith('overflow_mode') && value !== 'throw' && value !== 'break')
        throw refused(name, 'is throw or break');
      inForce.set(name, value);
    } else throw refused(name, 'is not for readers');
  }
  return inForce;
}

function refused(name: string, why: string): ClickHouseException {
  return new ClickHouseException(
    452,
    `Code: 452. DB::Exception: Setting ${name} ${why}. (SETTING_CONSTRAINT_VIOLATION)`,
  );
}
