/** Conditions of analytics queries: SQL in which every value is a parameter. */
import type { UserPath } from '../../events/event.ts';

/** Conditions that must all hold, and the values of their parameters. */
export interface Conditions {
  /** For after WHERE. */
  readonly sql: string;
  readonly parameters: Readonly<Record<string, unknown>>;
  /** One by one, without those that were left out. */
  readonly conditions: readonly Condition[];
}

/** SQL and the values of its parameters. */
export type Condition = readonly [sql: string, parameters: Readonly<Record<string, unknown>>];

/** Undefined conditions are left out. The names of parameters must differ. */
export function allOf(conditions: readonly (Condition | undefined)[]): Conditions {
  const given = conditions.filter((condition) => condition !== undefined);
  return {
    sql: given.length === 0 ? 'true' : given.map(([sql]) => `(${sql})`).join(' AND '),
    parameters: Object.assign({}, ...given.map(([, parameters]) => parameters)),
    conditions: given,
  };
}

/** Conditions of which one must hold. Undefined conditions are left out; without any, nothing holds. */
export function anyOf(conditions: readonly (Condition | undefined)[]): Condition {
  const given = conditions.filter((condition) => condition !== undefined);
  return [
    given.length === 0 ? 'false' : given.map(([sql]) => sql).join(' OR '),
    Object.assign({}, ...given.map(([, parameters]) => parameters)),
  ];
}

const QUARTER_HOUR_MS = 900_000;

/** Whether sums by quarters of an hour can be cut at this time. @param ms milliseconds since the epoch */
export function isAtQuarterHour(ms: number): boolean {
  return ms % QUARTER_HOUR_MS === 0;
}

/** No row is later. */
const LAST_TIME = Date.UTC(2200, 0);

/** A time for a parameter of type DateTime64(6, 'UTC'). @param ms milliseconds since the epoch */
export function sqlTime(ms: number): string {
  return new Date(Math.min(Math.max(ms, 0), LAST_TIME)).toISOString().replace('T', ' ').slice(0, -1);
}

/**
 * From a time (inclusive) to a time (exclusive).
 * @param expression of the time, such as `u.at`
 * @param prefix of the names of the parameters, where a query has several ranges
 */
export function between(expression: string, from: number, until: number, prefix = ''): Condition {
  return [
    `${expression} >= {${prefix}from: DateTime64(6, 'UTC')} AND ${expression} < {${prefix}until: DateTime64(6, 'UTC')}`,
    { [`${prefix}from`]: sqlTime(from), [`${prefix}until`]: sqlTime(until) },
  ];
}

/** The path and all below it. @param expression of the user path, such as `u.user_path` */
export function inSubtree(expression: string, path: UserPath | undefined): Condition | undefined {
  if (path === undefined || path === '/') return undefined;
  return [
    `${expression} = {subtree: String} OR startsWith(${expression}, {subtree_below: String})`,
    { subtree: path, subtree_below: `${path}/` },
  ];
}

/** @param name of the parameter */
export function equal(expression: string, name: string, value: string | undefined): Condition | undefined {
  return value === undefined ? undefined : [`${expression} = {${name}: String}`, { [name]: value }];
}

/** One of the values; everything without any. @param name of the parameter */
export function oneOfTexts(
  expression: string,
  name: string,
  values: readonly string[] | undefined,
): Condition | undefined {
  if (values === undefined || values.length === 0) return undefined;
  return [`${expression} IN {${name}: Array(String)}`, { [name]: values }];
}

/**
 * Requests of one of the sessions, as they are recorded or as their clients named them (`scopedSession`); everything
 * without any. @param prefix of the columns, such as `u.`
 */
export function ofSessions(prefix: string, values: readonly string[] | undefined): Condition | undefined {
  if (values === undefined || values.length === 0) return undefined;
  const [session, path] = [`${prefix}session_id`, `${prefix}user_path`];
  const scoped = (of: string) => `concat('scoped-', lower(left(hex(SHA256(concat(${of}, '\\n', name))), 32)))`;
  const named = `${session} = ${scoped(path)} OR (${path} = '/' AND ${session} = ${scoped("''")})`;
  return [
    `${session} IN {sessions: Array(String)} OR
      (startsWith(${session}, 'scoped-') AND arrayExists(name -> (${named}), {sessions: Array(String)}))`,
    { sessions: values },
  ];
}

/** The SQL function that finds a part of a text in upper or lower case: for ASCII there is a much faster one. */
export function searchFunction(part: string): string {
  return [...part].every((character) => character < '\u0080')
    ? 'positionCaseInsensitive'
    : 'positionCaseInsensitiveUTF8';
}

/** A string literal of ClickHouse. */
export function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

const PARAMETER = /(\bIN )?\{(\w+): ([^{}]+)\}/g;

/** The condition without parameters. @throws Error for a parameter without a value */
export function inlineParameters([sql, parameters]: Condition): string {
  return sql.replaceAll(PARAMETER, (_whole, isIn: string | undefined, name: string, type: string) => {
    const value = literal(parameters[name], type, name);
    return isIn === undefined ? value : `IN (${value.slice(1, -1)})`;
  });
}

function literal(value: unknown, type: string, name: string): string {
  if (Array.isArray(value)) {
    const element = /^Array\((.+)\)$/.exec(type)?.[1] ?? type;
    return `[${value.map((one) => literal(one, element, name)).join(', ')}]`;
  }
  if (typeof value === 'number') return String(value);
  if (typeof value !== 'string') throw new Error(`parameter ${name} of a query has no value`);
  const [, precision] = /^DateTime64\((\d), 'UTC'\)$/.exec(type) ?? [];
  if (precision !== undefined) return `toDateTime64(${quoted(value)}, ${precision}, 'UTC')`;
  return quoted(value);
}
