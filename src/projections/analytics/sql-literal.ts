/** Values as text in SQL, for queries that people read and paste elsewhere. */
import type { Condition } from './conditions.ts';

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
