/**
 * Rows in ClickHouse's format TabSeparated: text that can hold any bytes and is the cheapest format to write. The
 * functions here encode single fields; `TsvRows` collects whole rows.
 */

const special = /[\\\t\n\r\0]/;
const specialInQuotes = /[\\\t\n\r\0']/;

export function tsvText(value: string | undefined): string {
  if (value === undefined) return '';
  if (!special.test(value)) return value;
  return escaped(value);
}

function escaped(value: string): string {
  return value
    .replaceAll('\\', '\\\\')
    .replaceAll('\n', '\\n')
    .replaceAll('\t', '\\t')
    .replaceAll('\r', '\\r')
    .replaceAll('\0', '\\0');
}

export function texts(values: readonly string[]): string {
  if (values.length === 0) return '[]';
  return `[${values.map(quoted).join(',')}]`;
}

function quoted(value: string): string {
  return specialInQuotes.test(value) ? `'${escaped(value).replaceAll("'", "\\'")}'` : `'${value}'`;
}

export function numbers(values: readonly number[]): string {
  return `[${values.join(',')}]`;
}

/** A value of ClickHouse's type Map. */
export function numbersByName(values: Readonly<Record<string, number>>): string {
  const members = Object.entries(values).map(([name, value]) => `${quoted(name)}:${value}`);
  return `{${members.join(',')}}`;
}

export function orNull(value: number | string | null | undefined): string {
  return value === undefined || value === null ? '\\N' : String(value);
}

/** A time in microseconds, as seconds: `1700000000.123456`. @param at milliseconds since the epoch, with a fraction */
export function time(at: number): string {
  const whole = Math.floor(at);
  const micros = Math.floor((at - whole) * 1000);
  const seconds = Math.floor(whole / 1000);
  return `${seconds}.${String((whole - seconds * 1000) * 1000 + micros).padStart(6, '0')}`;
}

const firstBytes = 64 * 1024;

/** Rows as they will be sent, and the id of each: see `rowId` of tables. */
export class TsvRows {
  #buffer = Buffer.allocUnsafe(0);
  #used = 0;
  #rowStart = 0;
  #ids: number[] = [];
  #ends: number[] = [];

  get count(): number {
    return this.#ids.length;
  }

  get bytes(): number {
    return this.#used;
  }

  /** In the order of the log. */
  get ids(): readonly number[] {
    return this.#ids;
  }

  /** Text that has its tabs between fields already. */
  write(fields: string): void {
    const most = fields.length * 3;
    this.#room(most);
    this.#used += this.#buffer.write(fields, this.#used);
  }

  /** One field with unchanged bytes. */
  writeBytes(bytes: Uint8Array): void {
    const latin1 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
    const field = special.test(latin1) ? escaped(latin1) : latin1;
    this.#room(field.length);
    this.#used += this.#buffer.write(field, this.#used, 'latin1');
  }

  /** Ends a row. */
  end(id: number): void {
    this.write('\n');
    this.#rowStart = this.#used;
    this.#ids.push(id);
    this.#ends.push(this.#used);
  }

  all(): Buffer {
    return this.#buffer.subarray(0, this.#rowStart);
  }

  /** The rows whose id is not among these. */
  without(ids: ReadonlySet<number>): Buffer {
    if (ids.size === 0) return this.all();
    let start = 0;
    const kept: Buffer[] = [];
    for (const [index, end] of this.#ends.entries()) {
      if (!ids.has(this.#ids[index] ?? -1)) kept.push(this.#buffer.subarray(start, end));
      start = end;
    }
    return Buffer.concat(kept);
  }

  /** Removes all rows and keeps the memory for others: results of `all` and `without` must not be in use any more. */
  clear(): void {
    this.#used = 0;
    this.#rowStart = 0;
    this.#ids = [];
    this.#ends = [];
  }

  #room(bytes: number): void {
    const needed = this.#used + bytes;
    if (needed <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(firstBytes, this.#buffer.length * 2, needed));
    this.#buffer.copy(larger, 0, 0, this.#used);
    this.#buffer = larger;
  }
}
