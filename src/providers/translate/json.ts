/** What translators share: reading members of JSON, and the refusal of a request. */
import { isExactNumber, parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';

/** A JSON object of unchecked members: a translator reads the known ones and keeps the rest. */
export type JsonObject = { readonly [member: string]: unknown };

/** The value when it is a string that is not empty: clients send `''` and `null` for "not set". */
export function filled(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** The object in a JSON text; undefined when the text is not one. */
export function parsedObject(text: string): JsonObject | undefined {
  try {
    const parsed = parseExactly(text);
    return isObject(parsed) && !isExactNumber(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** The arguments of a tool call, which most clients and servers send as a text; undefined when not a JSON object. */
export function callArguments(given: unknown): JsonObject | undefined {
  if (given === undefined || given === null || given === '') return {};
  if (typeof given === 'string') return parsedObject(given);
  return isObject(given) ? given : undefined;
}

/** The members that have a value: clients send `null` for "not set". */
export function withoutNulls(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined));
}

/** Whether the value means the default: null, an empty text or an empty list. */
export function isUnset(value: unknown): boolean {
  return value === null || value === undefined || value === '' || (Array.isArray(value) && value.length === 0);
}

/** A count of tokens; 0 where it is not a number. */
export function tokensOrZero(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) ? value : 0;
}

/** A count of tokens as a provider reports it; null where it is not one. */
export function reportedCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Null where a side is not known. */
export function totalOf(input: number | null, output: number | null): number | null {
  return input === null || output === null ? null : input + output;
}

/** The refusal of a request, with the members of the error envelope. A retry of the same request cannot succeed. */
export interface TranslationRefusal {
  readonly status: 400 | 404;
  readonly code: string | null;
  /** Path of the member at fault, for example `input[0].role`. */
  readonly param: string | null;
  readonly message: string;
}

export interface Refused {
  readonly ok: false;
  readonly refusal: TranslationRefusal;
}

export function refuse(code: string | null, param: string | null, message: string, status: 400 | 404 = 400): Refused {
  return { ok: false, refusal: { status, code, param, message } };
}

/** A 400 `missing_required_parameter`. @param param path of the member */
export function refuseMissing(param: string): Refused {
  return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
}

/** The content of a `data:` URL (RFC 2397). */
interface DataUrl {
  /** Lower case, without parameters; empty when the URL has none. */
  readonly mediaType: string;
  readonly base64: string;
}

/** Undefined when the text is not a data URL. The payload may be megabytes, so it is not checked. */
export function parseDataUrl(url: string): DataUrl | undefined {
  if (!/^data:/i.test(url)) return undefined;
  const comma = url.indexOf(',');
  if (comma === -1) return undefined;
  const [mediaType = '', ...parameters] = url.slice('data:'.length, comma).split(';');
  const payload = url.slice(comma + 1);
  const encoded = parameters.some((parameter) => parameter.trim().toLowerCase() === 'base64');
  return {
    mediaType: mediaType.trim().toLowerCase(),
    base64: encoded ? payload : percentDecoded(payload).toString('base64'),
  };
}

function percentDecoded(text: string): Buffer {
  try {
    return Buffer.from(decodeURIComponent(text));
  } catch {
    return Buffer.from(text);
  }
}
