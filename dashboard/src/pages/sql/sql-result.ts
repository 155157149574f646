/** The answer to a query as columns and rows. Pure. */

export interface ResultColumn {
  readonly name: string;
  /** ClickHouse's type. */
  readonly type: string;
}

export interface SqlTable {
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly (readonly unknown[])[];
  /** Seconds in ClickHouse; undefined when it was not reported. */
  readonly seconds: number | undefined;
}

/** @returns undefined for an answer in a format that the query chose itself */
export function tableOf(contentType: string, text: string): SqlTable | undefined {
  if (!contentType.includes('json')) return undefined;
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { meta, data, statistics }: { meta?: unknown; data?: unknown; statistics?: { elapsed?: unknown } } =
    Object(answer);
  if (!Array.isArray(meta) || !Array.isArray(data)) return undefined;
  const columns = meta.map((one): ResultColumn => ({ name: String(one?.name), type: String(one?.type) }));
  const rows = data.map((row: unknown): readonly unknown[] =>
    Array.isArray(row) ? row : columns.map(({ name }) => Object(row)[name]),
  );
  const elapsed = statistics?.elapsed;
  return { columns, rows, seconds: typeof elapsed === 'number' ? elapsed : undefined };
}

/** Of `LowCardinality(Nullable(String))`: `String`. */
export function plainType(type: string): string {
  const inner = /^(?:LowCardinality|Nullable|SimpleAggregateFunction)\((?:\w+, )?(.+)\)$/.exec(type)?.[1];
  return inner === undefined ? type : plainType(inner);
}

export function isNumeric({ type }: ResultColumn): boolean {
  return /^(?:U?Int\d+|Float\d+|BFloat16|Decimal.*)$/.test(plainType(type));
}

export function isTime({ type }: ResultColumn): boolean {
  return /^Date/.test(plainType(type));
}

/** What a cell shows: lists and objects as JSON, null as a dash. */
export function cellText(value: unknown): string {
  if (value === null || value === undefined) return '–';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** Numbers beyond 2^53 come as text. @returns null for anything but a finite number */
export function numberIn(value: unknown): number | null {
  if (typeof value !== 'number' && (typeof value !== 'string' || value.trim() === '')) return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}
