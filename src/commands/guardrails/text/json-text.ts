/**
 * The strings and numbers of a JSON text: arguments of tool calls arrive as JSON text, and rules apply to the values in
 * it, not to its syntax. Texts that are not JSON are read as far as they are.
 */

/** A string or a number in a JSON text. */
export interface JsonLiteral {
  readonly start: number;
  /** After its last unit. */
  readonly end: number;
  readonly isString: boolean;
  /** Decoded; of a number its plain decimal form. */
  readonly text: string;
}

const quote = '"';
const numberOrQuote = /["\-0-9]/g;
const number = /[-+.0-9eE]+/y;

export function jsonLiterals(json: string): JsonLiteral[] {
  const literals: JsonLiteral[] = [];
  let at = 0;
  for (;;) {
    numberOrQuote.lastIndex = at;
    const found = numberOrQuote.exec(json);
    if (found === null) return literals;
    const start = found.index;
    const isString = found[0] === quote;
    const end = isString ? endOfString(json, start) : endOfNumber(json, start);
    const text = isString ? decodeJsonString(json.slice(start + 1, end - 1)) : plainNumber(json.slice(start, end));
    literals.push({ start, end, isString, text });
    at = end;
  }
}

function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    const unit = json[at];
    if (unit === '\\') at += 1;
    else if (unit === quote) return at + 1;
  }
  // Cut: as if the quote followed.
  return json.length + 1;
}

/** Longer forms of numbers are no values to recognise. */
const mostPlaces = 40;
const scientific = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,3}))?$/;

/** A number without exponent and without a fraction of zeros, as a translated request may contain it. */
export function plainNumber(written: string): string {
  if (!/[.eE]/.test(written)) return written;
  const [, sign, whole = '', fraction = '', exponent = '0'] = scientific.exec(written) ?? [];
  const point = whole.length + Number(exponent);
  if (sign === undefined || Math.abs(Number(exponent)) > mostPlaces) return written;
  const digits = (whole + fraction).padEnd(point, '0');
  const before = point > 0 ? digits.slice(0, point).replace(/^0+(?=\d)/, '') : '0';
  const after = (point > 0 ? digits.slice(point) : digits.padStart(digits.length - point, '0')).replace(/0+$/, '');
  return `${sign}${before}${after === '' ? '' : `.${after}`}`;
}

function endOfNumber(json: string, start: number): number {
  number.lastIndex = start;
  number.exec(json);
  return number.lastIndex;
}

/** The JSON text with other values for some literals. */
export function withLiterals(
  json: string,
  literals: readonly JsonLiteral[],
  changed: ReadonlyMap<JsonLiteral, string>,
): string {
  let result = '';
  let from = 0;
  for (const literal of literals) {
    const text = changed.get(literal);
    if (text === undefined) continue;
    const isCut = literal.end > json.length;
    const written = JSON.stringify(text);
    result += json.slice(from, literal.start) + (isCut ? written.slice(0, -1) : written);
    from = literal.end;
  }
  return result + json.slice(from);
}

const simpleEscapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** @param encoded the text between the quotes */
export function decodeJsonString(encoded: string): string {
  if (!encoded.includes('\\')) return encoded;
  return encoded.replace(/\\(u[0-9a-fA-F]{4}|[\s\S])/g, (_, escaped: string) =>
    escaped.length === 5
      ? String.fromCharCode(Number.parseInt(escaped.slice(1), 16))
      : (simpleEscapes[escaped] ?? escaped),
  );
}

/** The text between the quotes. */
export function encodeJsonString(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
