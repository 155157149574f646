/** Turns whatever a provider says when it fails into the gateway's error. */
import { STATUS_CODES } from 'node:http';
import { parseExactly } from '../json/exact-json.ts';
import { codeOfErrorType, statusOfErrorType } from './anthropic/error-types.ts';
import { errorCodeOf } from './error-code.ts';

/** The `type` of an error: a closed set. */
export type ErrorType =
  | 'provider_error'
  | 'rate_limit_error'
  | 'invalid_request_error'
  | 'authentication_error'
  | 'not_found_error'
  | 'permission_error'
  | 'internal_error';

export interface MappedError {
  /** The HTTP status for the client. */
  readonly status: number;
  readonly type: ErrorType;
  readonly code: string | null;
  readonly message: string;
  readonly param: string | null;
  readonly provider: string;
  /** The provider's `Retry-After` as it sent it: seconds, or an HTTP date. */
  readonly retryAfter?: string;
}

/** A provider answered, but not with what was asked for. */
export class UpstreamError extends Error {
  readonly facts: MappedError;
  constructor(facts: MappedError) {
    super(facts.message);
    this.facts = facts;
  }
}

const MAX_MESSAGE_LENGTH = 2000;
const MAX_CODE_LENGTH = 128;

export interface UpstreamAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** `redact` takes the provider's own credentials out of a text, which patterns alone may miss. */
  readonly provider: { readonly name: string; redact?(text: string): string };
}

/** Also for a 2xx answer whose body is an error (`isErrorBody`). */
export function mapUpstreamError(answer: UpstreamAnswer): MappedError {
  const { headers, body, provider } = answer;
  const said = readError(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString(), headers);
  const status = statusFor(answer.status, said.status ?? Number(said.code));
  const clean = (text: string, maxLength: number): string =>
    shorten(withoutKeys(provider.redact?.(text) ?? text), maxLength);
  // llama.cpp and others repeat the status as `code`.
  const code = said.code === String(answer.status) || said.code === String(status) ? undefined : said.code;
  const retryAfter = retryAfterOf(headers);
  return {
    status,
    type: typeFor(status),
    code: code === undefined ? null : clean(code, MAX_CODE_LENGTH),
    message: clean(said.message ?? silent(provider.name, answer.status), MAX_MESSAGE_LENGTH),
    param: said.param === undefined ? null : clean(said.param, MAX_CODE_LENGTH),
    provider: provider.name,
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
}

/** Whether a 2xx body says nothing but an error. A failed Responses object is an answer: it has its own `error`. */
export function isErrorBody(parsed: unknown): boolean {
  if (Array.isArray(parsed)) return parsed.length > 0 && isErrorBody(parsed[0]);
  if (!isObject(parsed)) return false;
  const { error } = parsed;
  if (!isObject(error) && (typeof error !== 'string' || error === '')) return false;
  return !('choices' in parsed) && !('data' in parsed) && !('output' in parsed) && parsed['object'] !== 'response';
}

/** `Retry-After`, or the `Retry-After-Ms` that OpenAI and Azure send, as whole seconds. */
function retryAfterOf(headers: Readonly<Record<string, string>>): string | undefined {
  const { 'retry-after': value, 'retry-after-ms': precise } = headers;
  if (value !== undefined || precise === undefined || precise.trim() === '') return value;
  const seconds = Number(precise) / 1000;
  return Number.isFinite(seconds) ? String(Math.max(0, Math.ceil(seconds))) : undefined;
}

/** @param told the status that the body tells */
function statusFor(status: number, told: number): number {
  if (status >= 400 && status <= 599) return status;
  if (status >= 200 && status <= 299 && Number.isInteger(told) && told >= 400 && told <= 599) return told;
  return 502;
}

function typeFor(status: number): ErrorType {
  if (status >= 500) return 'provider_error';
  if (status === 401 || status === 403) return 'authentication_error';
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return 'invalid_request_error';
}

interface Said {
  readonly message?: string;
  readonly code?: string;
  readonly param?: string;
  readonly status?: number;
}

function readError(text: string, headers: Readonly<Record<string, string>>): Said {
  const trimmed = text.trim();
  if (trimmed === '') return {};
  if (isHtml(trimmed, headers)) return { message: titleOf(trimmed) };
  let parsed: unknown;
  try {
    parsed = parseExactly(trimmed);
  } catch {
    return { message: trimmed };
  }
  return readParsed(parsed);
}

/** The shapes in use: OpenAI's, Anthropic's, a bare string, Gemini's array, Mistral's flat one, FastAPI's `detail`. */
function readParsed(parsed: unknown): Said {
  if (Array.isArray(parsed)) return parsed.length === 0 ? {} : readParsed(parsed[0]);
  if (typeof parsed === 'string') return { message: parsed };
  if (!isObject(parsed)) return {};
  if (typeof parsed['error'] === 'string' && parsed['error'] !== '') {
    return { ...readMembers(parsed), message: parsed['error'] };
  }
  const { type, error } = parsed;
  if (!isObject(error)) return readMembers(parsed);
  return type === 'error' ? readTyped(error) : readMembers(error);
}

/** Anthropic's: the type of the error says what others say in a code. */
function readTyped(error: Record<string, unknown>): Said {
  const said = readMembers(error);
  return {
    ...said,
    code: said.code ?? codeOfErrorType(error['type']),
    status: statusOfErrorType(error['type']),
  };
}

function readMembers(error: Record<string, unknown>): Said {
  const { param } = error;
  const code = errorCodeOf(error);
  const told = error['message'] ?? error['detail'] ?? error['msg'];
  const message = isObject(told) && 'detail' in told ? told['detail'] : told;
  return {
    ...(message === undefined || message === null || message === '' ? {} : { message: sentence(message) }),
    ...(code === undefined ? {} : { code }),
    ...(typeof param === 'string' ? { param } : {}),
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

/** An error page of a proxy: its title is all there is to say. */
function titleOf(html: string): string {
  const title = /<title[^>]*>([^<]{1,200})/i.exec(html)?.[1]?.trim();
  return title === undefined || title === '' ? 'the provider answered with a web page' : title;
}

function silent(provider: string, status: number): string {
  const phrase = STATUS_CODES[status];
  return `provider ${provider} answered with status ${status}${phrase === undefined ? '' : ` (${phrase})`}`;
}

/** Providers quote keys in their messages, and a key in a log cannot be taken back. */
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

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
