/**
 * The strings and numbers of a JSON text: arguments of tool calls arrive as JSON text, and rules apply to the values in
 * it, not to its syntax. Texts that are not JSON are read as far as they are.
 */
import type { StreamChannel } from '../guardrail-type.ts';

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
function decodeJsonString(encoded: string): string {
  if (!encoded.includes('\\')) return encoded;
  return encoded.replace(/\\(u[0-9a-fA-F]{4}|[\s\S])/g, (_, escaped: string) =>
    escaped.length === 5
      ? String.fromCharCode(Number.parseInt(escaped.slice(1), 16))
      : (simpleEscapes[escaped] ?? escaped),
  );
}

/** The text between the quotes. */
function encodeJsonString(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

// Rewrites the strings and numbers of a JSON text that arrives in pieces. Joined, what is returned is JSON with the same
// structure whose values are rewritten as whole texts. Unchanged strings may be escaped differently.

/** Rewrites one string or number. */
export interface TextStage {
  push(text: string): string;
  end(): string;
}

const structure = /["\-0-9]/g;
const inNumber = /[-+.0-9eE]*/y;
const stringEnd = /["\\]/g;
/** `\` and the most that follows it: `uXXXX`. */
const escapeSequence = /\\(?:u[0-9a-fA-F]{4}|[^u])/y;
const longestEscape = 6;
/** A longer number passes unchanged. */
const longestNumber = 400;

class JsonTextRewriter {
  readonly #open: () => TextStage;
  #string: TextStage | undefined;
  /** An incomplete escape, or a number. */
  #held = '';
  #inNumber = false;

  /** @param open begins the rewriting of the next string or number */
  constructor(open: () => TextStage) {
    this.#open = open;
  }

  push(piece: string): string {
    const text = this.#held + piece;
    this.#held = '';
    return this.#read(text);
  }

  end(): string {
    const number = this.#inNumber ? this.#endNumber(this.#held) : '';
    const rest = this.#string === undefined ? '' : encodeJsonString(this.#string.end()) + this.#held;
    this.#string = undefined;
    this.#held = '';
    this.#inNumber = false;
    return number + rest;
  }

  #read(text: string): string {
    let returned = '';
    let at = 0;
    while (at < text.length) {
      if (this.#string !== undefined) {
        const { written, next } = this.#readString(this.#string, text, at);
        returned += written;
        at = next;
      } else if (this.#inNumber) {
        inNumber.lastIndex = at;
        inNumber.exec(text);
        const end = inNumber.lastIndex;
        if (end === text.length && end - at <= longestNumber) {
          this.#held = text.slice(at);
          return returned;
        }
        returned += this.#endNumber(text.slice(at, end));
        at = end;
      } else {
        structure.lastIndex = at;
        const found = structure.exec(text);
        if (found === null) return returned + text.slice(at);
        returned += text.slice(at, found.index);
        at = found.index;
        if (found[0] === quote) {
          returned += quote;
          at += 1;
          this.#string = this.#open();
        } else this.#inNumber = true;
      }
    }
    return returned;
  }

  #readString(stage: TextStage, text: string, from: number): { readonly written: string; readonly next: number } {
    let decoded = '';
    let at = from;
    while (at < text.length) {
      stringEnd.lastIndex = at;
      const found = stringEnd.exec(text);
      if (found === null) return { written: pushed(stage, decoded + text.slice(at)), next: text.length };
      decoded += text.slice(at, found.index);
      at = found.index;
      if (found[0] === quote) {
        this.#string = undefined;
        return { written: pushed(stage, decoded) + encodeJsonString(stage.end()) + quote, next: at + 1 };
      }
      escapeSequence.lastIndex = at;
      const complete = escapeSequence.exec(text)?.[0];
      if (complete === undefined && text.length - at < longestEscape) {
        this.#held = text.slice(at);
        return { written: pushed(stage, decoded), next: text.length };
      }
      // An invalid escape keeps its letter.
      const read = complete ?? text.slice(at, at + 2);
      decoded += decodeJsonString(read);
      at += read.length;
    }
    return { written: pushed(stage, decoded), next: at };
  }

  #endNumber(number: string): string {
    this.#inNumber = false;
    const stage = this.#open();
    const plain = plainNumber(number);
    const rewritten = stage.push(plain) + stage.end();
    return rewritten === plain ? number : JSON.stringify(rewritten);
  }
}

function pushed(stage: TextStage, decoded: string): string {
  return decoded === '' ? '' : encodeJsonString(stage.push(decoded));
}

// The texts of one stream, each rewritten on its own. Arguments of tool calls are JSON texts, whose values are rewritten.

/** More texts in one answer are refused. */
const mostChannels = 4_096;

export class ChannelStages {
  readonly #open: () => TextStage;
  readonly #stages = new Map<string, TextStage>();

  /** @param open begins the rewriting of a text, or of a value within a JSON text */
  constructor(open: () => TextStage) {
    this.#open = open;
  }

  push(channel: StreamChannel, text: string): string {
    return this.#stageOf(channel).push(text);
  }

  end({ key }: StreamChannel): string {
    const stage = this.#stages.get(key);
    if (stage === undefined) return '';
    this.#stages.delete(key);
    return stage.end();
  }

  #stageOf({ key, isJson }: StreamChannel): TextStage {
    const known = this.#stages.get(key);
    if (known !== undefined) return known;
    if (this.#stages.size >= mostChannels) throw new Error(`the answer has more than ${mostChannels} open texts`);
    const stage = isJson ? new JsonTextRewriter(this.#open) : this.#open();
    this.#stages.set(key, stage);
    return stage;
  }
}
