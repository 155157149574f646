/** Converts any error answer of a provider into the gateway's error. */
import { STATUS_CODES } from 'node:http';
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';

/** The `type` of an error: a closed set. */
export type ErrorType =
  | 'provider_error'
  | 'rate_limit_error'
  | 'invalid_request_error'
  | 'authentication_error'
  | 'not_found_error'
  | 'permission_error'
  | 'guardrail_error'
  | 'internal_error';

export interface MappedError {
  /** The HTTP status for the client. */
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly message: string;
  readonly param: string | null;
  readonly provider: string;
  /** The provider's `Retry-After`, unchanged: seconds, or an HTTP date. */
  readonly retryAfter?: string;
  /** The headers with the provider's own rate limits. */
  readonly rateLimits?: Readonly<Record<string, string>>;
}

/** A provider's answer that is not the requested one. */
export class UpstreamError extends Error {
  readonly facts: MappedError;
  constructor(facts: MappedError) {
    super(facts.message);
    this.facts = facts;
  }
}

const MAX_MESSAGE_LENGTH = 2000;
const MAX_CODE_LENGTH = 128;

interface UpstreamAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** `redact` removes the provider's own credentials from a text, which patterns alone may miss. */
  readonly provider: { readonly name: string; redact?(text: string): string };
}

/** Also for a 2xx answer, or a chunk of one, that reports an error (`isErrorBody`). */
export function mapUpstreamError(answer: UpstreamAnswer): MappedError {
  const { headers, body, provider } = answer;
  const providerError = readError(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(), headers);
  const status = statusFor(answer.status, providerError);
  const clean = (text: string, maxLength: number): string =>
    shorten(withoutKeys(provider.redact?.(text) ?? text), maxLength);
  // llama.cpp and others repeat the status as `code`.
  const code =
    providerError.code === String(answer.status) || providerError.code === String(status)
      ? undefined
      : providerError.code;
  const retryAfter = retryAfterOf(headers);
  const rateLimits = rateLimitsIn(headers);
  return {
    status,
    type: typeFor(status),
    code: code === undefined ? null : clean(code, MAX_CODE_LENGTH),
    message: clean(providerError.message ?? silent(provider.name, answer.status), MAX_MESSAGE_LENGTH),
    param: providerError.param === undefined ? null : clean(providerError.param, MAX_CODE_LENGTH),
    provider: provider.name,
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(rateLimits === undefined ? {} : { rateLimits }),
  };
}

/**
 * Whether a 2xx body, or a chunk of a stream, reports an error, also beside a part of an answer: servers that fail
 * during an answer add `error` to a chunk or to a choice, or end a choice with the finish reason `error`. A failed
 * Responses object is an answer: it has its own `error`.
 */
export function isErrorBody(parsed: unknown): boolean {
  if (Array.isArray(parsed)) return parsed.length > 0 && isErrorBody(parsed[0]);
  if (!isObject(parsed) || 'data' in parsed || 'output' in parsed || parsed['object'] === 'response') return false;
  const { error } = parsed;
  if (isObject(error) || (typeof error === 'string' && error !== '') || error === true) return true;
  if (parsed['object'] === 'error') return true;
  return 'choices' in parsed ? errorOfChoice(parsed) !== undefined : isFlatError(parsed);
}

/** An error without an `error` object: FastAPI's `detail`; FastChat's `error_code`. vLLM and SGLang set `object`, too. */
function isFlatError(parsed: Record<string, unknown>): boolean {
  if (typeof parsed['error_code'] === 'number' && parsed['error_code'] !== 0) return true;
  return 'detail' in parsed && Object.keys(parsed).length === 1;
}

/** The error of a choice, empty when the choice contains no details. */
function errorOfChoice({ choices }: Record<string, unknown>): Record<string, unknown> | undefined {
  if (!Array.isArray(choices)) return undefined;
  for (const choice of choices) {
    if (!isObject(choice)) continue;
    if (isObject(choice['error'])) return choice['error'];
    if (choice['finish_reason'] === 'error') return {};
  }
  return undefined;
}

/** The status of the answer; for a 2xx answer, the one in its body; else 502. */
function statusFor(status: number, providerError: ProviderErrorMembers): number {
  if (status >= 400 && status <= 599) return status;
  const reportedStatus = [Number(providerError.code), providerError.status, statusOfCode.get(providerError.code)].find(
    isErrorStatus,
  );
  return status >= 200 && status <= 299 && reportedStatus !== undefined ? reportedStatus : 502;
}

function isErrorStatus(status: number | undefined): status is number {
  return status !== undefined && Number.isInteger(status) && status >= 400 && status <= 599;
}

/** Error types beside Anthropic's, which OpenAI uses too: those for a fault of the request, or a limit. */
const statusOfType: ReadonlyMap<unknown, number> = new Map([
  ['exceed_context_size_error', 400],
  ['insufficient_quota', 429],
  ['not_supported_error', 501],
  ['unavailable_error', 503],
]);

function typeFor(status: number): ErrorType {
  if (status >= 500) return 'provider_error';
  if (status === 401 || status === 403) return 'authentication_error';
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return 'invalid_request_error';
}

/** Codes that OpenAI sends in the middle of an answer. */
const statusOfCode: ReadonlyMap<unknown, number> = new Map([
  ['rate_limit_exceeded', 429],
  ['insufficient_quota', 429],
  ['context_length_exceeded', 400],
  ['invalid_prompt', 400],
]);

interface ProviderErrorMembers {
  readonly message?: string;
  readonly code?: string;
  readonly param?: string;
  readonly status?: number;
}

function readError(text: string, headers: Readonly<Record<string, string>>): ProviderErrorMembers {
  const trimmed = text.trim();
  if (trimmed === '') return {};
  if (isHtml(trimmed, headers)) return { message: titleOf(trimmed) };
  let parsed: unknown;
  try {
    parsed = parseExactly(trimmed);
  } catch {
    return { message: messageIn(trimmed) ?? trimmed };
  }
  return readParsed(parsed);
}

/** The message of a JSON error that was cut off. */
function messageIn(text: string): string | undefined {
  if (!text.startsWith('{')) return undefined;
  const matched = /"message"\s*:\s*"((?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4}){1,4000})/.exec(text)?.[1];
  try {
    return matched === undefined ? undefined : String(parseExactly(`"${matched}"`));
  } catch {
    return undefined;
  }
}

/** The known formats: OpenAI's, Anthropic's, a bare string, Gemini's array, Mistral's flat one, FastAPI's `detail`. */
function readParsed(parsed: unknown): ProviderErrorMembers {
  if (Array.isArray(parsed)) return parsed.length === 0 ? {} : readParsed(parsed[0]);
  if (typeof parsed === 'string') return { message: parsed };
  if (!isObject(parsed)) return {};
  if (typeof parsed['error'] === 'string' && parsed['error'] !== '') {
    return { ...readMembers(parsed), message: parsed['error'] };
  }
  const { type, error } = parsed;
  if (isObject(error)) return type === 'error' ? readTyped(error) : readMembers(error);
  if (typeof parsed['error_code'] === 'number') return readMembers({ message: parsed['text'], ...parsed });
  const ofChoice = errorOfChoice(parsed);
  return ofChoice === undefined ? readMembers(parsed) : { message: UNNAMED, ...readMembers(ofChoice) };
}

const UNNAMED = 'The provider ended its answer with an error without details.';

/** Anthropic's format: the details contain the code, which its clients evaluate; else the type serves as the code. */
function readTyped(error: Record<string, unknown>): ProviderErrorMembers {
  const providerError = readMembers(error);
  const { details, type } = error;
  const detailed = isObject(details) ? details['error_code'] : undefined;
  const code = typeof detailed === 'string' && detailed !== '' ? detailed : codeOfErrorType(type);
  return { ...providerError, code: providerError.code ?? code };
}

function readMembers(error: Record<string, unknown>): ProviderErrorMembers {
  const { param, type } = error;
  const code = errorCodeOf(error);
  const status = statusOfErrorType(type) ?? statusOfType.get(type);
  const errorMessage = error['message'] ?? error['detail'] ?? error['msg'];
  const message = isObject(errorMessage) && 'detail' in errorMessage ? errorMessage['detail'] : errorMessage;
  return {
    ...(message === undefined || message === null || message === '' ? {} : { message: sentence(message) }),
    ...(code === undefined ? {} : { code }),
    ...(typeof param === 'string' ? { param } : {}),
    ...(status === undefined ? {} : { status }),
  };
}

function sentence(message: unknown): string {
  if (typeof message === 'string') return message;
  if (!Array.isArray(message)) return JSON.stringify(message);
  const parts = message.map((part) => {
    if (!isObject(part) || typeof part['msg'] !== 'string') return sentence(part);
    return Array.isArray(part['loc']) ? `${part['loc'].join('.')}: ${part['msg']}` : part['msg'];
  });
  return parts.join('; ');
}

function isHtml(text: string, headers: Readonly<Record<string, string>>): boolean {
  return /^<(!doctype html|html|head|body)\b/i.test(text) || headers['content-type']?.includes('text/html') === true;
}

/** The title of a proxy's error page, which is its only usable text. */
function titleOf(html: string): string {
  const title = /<title[^>]*>([^<]{1,200})/i.exec(html)?.[1]?.trim();
  return title === undefined || title === '' ? 'the provider answered with a web page' : title;
}

function silent(provider: string, status: number): string {
  const phrase = STATUS_CODES[status];
  return `provider ${provider} answered with status ${status}${phrase === undefined ? '' : ` (${phrase})`}`;
}

/** Providers quote keys in their messages, and a key in a log cannot be removed. */
function withoutKeys(text: string): string {
  return text
    .replace(/\bBearer\s+[^\s"',;]+/gi, 'Bearer [redacted]')
    .replace(/\b(?:sk|pk|rk|xai|gsk|hf|key)[-_][A-Za-z0-9_*-]{8,}/g, '[redacted]')
    .replace(/\bAIza[A-Za-z0-9_-]{20,}/g, '[redacted]');
}

function shorten(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const cut = text.slice(0, maxLength - 1);
  return `${cut.isWellFormed() ? cut : cut.slice(0, -1)}…`;
}

/**
 * The code of a provider's error in the values that clients act on: some providers put into the type, or only into the
 * message, what OpenAI puts into the code.
 */
export function errorCodeOf(error: { readonly [member: string]: unknown }): string | undefined {
  const { code, type, message } = error;
  if (typeof code === 'string' && code !== '' && !isNumber(code)) return code;
  if (type === 'exceed_context_size_error') return 'context_length_exceeded';
  if (type === 'insufficient_quota') return 'insufficient_quota';
  if (typeof message === 'string' && tooLong.test(message)) return 'context_length_exceeded';
  return typeof code === 'number' || (typeof code === 'string' && code !== '') ? String(code) : undefined;
}

/** Messages of vLLM, llama.cpp, Anthropic and most others for an input that exceeds the model's context. */
const tooLong =
  /maximum context length|exceeds? the (?:available |model's )?context (?:size|window|length)|prompt is too long/i;

function isNumber(code: string): boolean {
  return /^\d+$/.test(code);
}

// The waiting time that a provider requests from its callers.

/** Upper limit of the waiting time: the provider may raise the limit earlier. */
const MAX_RETRY_AFTER_SECONDS = 300;

/** `Retry-After` unchanged, or the `Retry-After-Ms` of OpenAI and Azure in whole seconds. */
export function retryAfterOf(headers: Readonly<Record<string, string>>): string | undefined {
  const { 'retry-after': value, 'retry-after-ms': precise } = headers;
  if (value !== undefined || precise === undefined || !/^\d+(?:\.\d+)?$/.test(precise.trim())) return value;
  return String(Math.min(MAX_RETRY_AFTER_SECONDS, Math.ceil(Number(precise) / 1000)));
}

/** Between values, of which each line of the header has one; the comma within a date does not separate. */
const BETWEEN_VALUES = /(?<!\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}),/;
const DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? .*\d\d:\d\d:\d\d/;

/**
 * `Retry-After` is a number of seconds in digits, or a date (RFC 9110 §10.2.3). Of several values the longest counts.
 * @param now milliseconds since the epoch
 * @returns whole seconds, at most `MAX_RETRY_AFTER_SECONDS`; undefined when the header is absent or invalid
 */
export function retryAfterSecondsIn(retryAfter: string | undefined, now: number): number | undefined {
  let longest: number | undefined;
  for (const value of retryAfter?.split(BETWEEN_VALUES) ?? []) {
    const seconds = secondsOf(value.trim(), now);
    if (seconds !== undefined) longest = Math.max(longest ?? 0, seconds);
  }
  return longest === undefined ? undefined : Math.min(MAX_RETRY_AFTER_SECONDS, Math.ceil(longest));
}

function secondsOf(value: string, now: number): number | undefined {
  if (/^\d+$/.test(value)) return Number(value);
  if (!DATE.test(value)) return undefined;
  // The oldest form of a date has no zone: it is GMT, too.
  const date = Date.parse(value.endsWith('GMT') ? value : `${value} GMT`);
  return Number.isNaN(date) ? undefined : Math.max(0, (date - now) / 1000);
}

/** Headers with a provider's own rate limits: OpenAI's, which many send, and Anthropic's. */
const RATE_LIMIT = /^(?:x|anthropic)-ratelimit-/;

/** @param headers lower-case names. @returns undefined when there are none */
export function rateLimitsIn(headers: Readonly<Record<string, string>>): Record<string, string> | undefined {
  let found: Record<string, string> | undefined;
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined || !name.includes('-ratelimit-') || !RATE_LIMIT.test(name)) continue;
    found ??= {};
    found[name] = value;
  }
  return found;
}

// Types of Anthropic's errors ("Errors: HTTP errors"). In a stream only the type determines the status.

const statuses: ReadonlyMap<unknown, number> = new Map([
  ['invalid_request_error', 400],
  ['authentication_error', 401],
  ['billing_error', 402],
  ['permission_error', 403],
  ['not_found_error', 404],
  ['request_too_large', 413],
  ['rate_limit_error', 429],
  ['api_error', 500],
  ['timeout_error', 504],
  ['overloaded_error', 529],
]);

/** Types that are more specific than their status: clients get them as the error's code. */
const codes = new Set<unknown>(['billing_error', 'request_too_large', 'timeout_error', 'overloaded_error']);

export function statusOfErrorType(type: unknown): number | undefined {
  return statuses.get(type);
}

function codeOfErrorType(type: unknown): string | undefined {
  return typeof type === 'string' && codes.has(type) ? type : undefined;
}
