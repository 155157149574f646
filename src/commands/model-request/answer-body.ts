/** Reading the bytes of a provider's answer: whole, of an error, of one event of a stream. */
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import { unfinished } from '../../providers/transport-failure.ts';

/** @throws ProviderFailure, with `timeout` when the answer takes longer than a whole answer may */
export async function wholeBody(
  reply: ProviderReply,
  { name, answerLimit }: Pick<Provider, 'name' | 'answerLimit'>,
  maxBytes: number,
): Promise<Buffer> {
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    reply.body.cancel();
  }, answerLimit.ms);
  try {
    return await reply.body.bytes(maxBytes);
  } catch (error) {
    if (!expired) throw error;
    throw unfinished(name, answerLimit, reply.body.arrived, error);
  } finally {
    clearTimeout(timer);
  }
}

/** Undefined when the bytes are not JSON. */
export function parseWhole(bytes: Buffer): unknown {
  try {
    return parseExactly(bytes.toString());
  } catch {
    return undefined;
  }
}

/** Maximum number of recorded bytes of an error answer. */
export const MAX_ERROR_BYTES = 64 * 1024;
/** Bytes read beyond that, so that a credential at the cut is found whole. */
const CREDENTIAL_BYTES = 4096;
/** Milliseconds from the headers of an error answer to the end of its body. */
const ERROR_TIMEOUT_MS = 3_000;
const LIMIT_REACHED = Symbol('enough');

/**
 * The beginning of an error answer, up to `MAX_ERROR_BYTES` and a little more. The status states the error, so a body
 * that is longer, slow, or broken off is cut there.
 * @throws ProviderFailure when the caller's signal was aborted
 */
export async function errorBody(reply: ProviderReply): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  let isLate = false;
  const timer = setTimeout(() => {
    isLate = true;
    reply.body.cancel();
  }, ERROR_TIMEOUT_MS);
  try {
    await reply.body.pieces((piece) => {
      pieces.push(piece);
      bytes += piece.length;
      if (bytes >= MAX_ERROR_BYTES + CREDENTIAL_BYTES) throw LIMIT_REACHED;
    });
  } catch (error) {
    if (error !== LIMIT_REACHED && !(error instanceof ProviderFailure)) throw error;
    if (error instanceof ProviderFailure && error.kind === 'aborted' && !isLate) throw error;
  } finally {
    clearTimeout(timer);
  }
  return Buffer.concat(pieces).subarray(0, MAX_ERROR_BYTES + CREDENTIAL_BYTES);
}

/** The data of a stream event as an object; undefined when it is not an object. */
export function parseChunk(data: string): Record<string, unknown> | undefined {
  try {
    const parsed = parseExactly(data);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Whether the data of a stream event is no JSON object: a part of the answer is missing, or it is no answer at all. Data
 * without text and the end marker are neither. For events that are passed on without parsing: only the two ends are
 * checked.
 */
export function isNoEvent(data: string): boolean {
  if (data.startsWith('{') && data.endsWith('}')) return false;
  const text = data.trim();
  return text !== '' && text !== '[DONE]' && !(text.startsWith('{') && text.endsWith('}'));
}

/** Media types are case-insensitive (RFC 9110 §8.3.1). */
export function isEventStream(headers: Readonly<Record<string, string>>): boolean {
  return headers['content-type']?.toLowerCase().startsWith('text/event-stream') === true;
}

export function isJson(headers: Readonly<Record<string, string>>): boolean {
  const [type = ''] = headers['content-type']?.toLowerCase().split(';', 1) ?? [];
  return /^application\/(?:[\w.-]+\+)?json$/.test(type.trim());
}

/** The provider of an answer, and how its credentials are redacted. */
export interface Answering {
  readonly name: string;
  redact?(text: string): string;
}

/** The bytes without the provider's credentials, which some providers repeat in their errors. */
export function redacted(bytes: Buffer, provider: Answering): Buffer {
  // All bytes survive a conversion to Latin-1 and back; `redact` finds a credential in UTF-8 there, too.
  const text = bytes.toString('latin1');
  const clean = provider.redact?.(text) ?? text;
  return clean === text ? bytes : Buffer.from(clean, 'latin1');
}
