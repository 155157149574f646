/** A request to a provider as it was sent, put together again from the record. */
import type { z } from 'zod';
import {
  type AttemptRequest,
  attemptStarted,
  requestBodyReceived,
  requestPartReceived,
  requestReceived,
} from '../events/catalogue/exchange.ts';
import { guardrailApplied } from '../events/catalogue/guardrail.ts';
import type { EpochMs, RecordedEvent, StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA } from './projection.ts';

type Attempt = z.infer<typeof attemptStarted.data>;

export interface ProviderRequest {
  readonly attempt: Attempt;
  readonly at: EpochMs;
  readonly contentType: string | undefined;
  readonly content:
    | { readonly kind: 'body'; readonly bytes: Buffer }
    /** Only the digest is on record. */
    | { readonly kind: 'digest'; readonly bytes: number; readonly sha256: string }
    /** A streamed form: its fields and files, as they were read. */
    | { readonly kind: 'parts'; readonly parts: readonly z.infer<typeof requestPartReceived.data>[] }
    /** An earlier version of the gateway recorded the attempt, or its body was not kept. */
    | { readonly kind: 'unknown' };
}

/** @param number of the attempt; the last one when absent. @returns undefined when there is no such attempt */
export async function providerRequest(
  stream: StreamName,
  number: number | undefined,
  log: Pick<EventLog, 'readStream'>,
): Promise<ProviderRequest | undefined> {
  let found: { readonly event: RecordedEvent<string, Attempt>; readonly bytes: Buffer | undefined } | undefined;
  let clientType: string | undefined;
  /** The recorded bodies by the names that attempts give them. */
  const bodies = new Map<string, Buffer>();
  let pieces: (Buffer | undefined)[] = [];
  let parts: z.infer<typeof requestPartReceived.data>[] = [];
  for await (const event of log.readStream(stream)) {
    if (isA(event, requestReceived)) {
      clientType = event.data.headers['content-type'];
      if (event.body !== undefined) bodies.set('client', bufferOf(event.body));
    } else if (isA(event, guardrailApplied)) {
      if (event.data.phase === 'prompt' && event.body !== undefined) bodies.set('guardrails', bufferOf(event.body));
    } else if (isA(event, requestBodyReceived)) {
      // The messages of a session are no body.
      if (found?.event.data.dialect !== 'realtime')
        pieces.push(event.body === undefined ? undefined : bufferOf(event.body));
    } else if (isA(event, requestPartReceived)) {
      parts.push(event.data);
    } else if (isA(event, attemptStarted)) {
      if (found !== undefined && found.event.data.attempt === number) break;
      const bytes = sentBytes(event.data.request, event.body, bodies);
      if (bytes !== undefined && bytes.length > 0) {
        // An attempt is compared with the last one that has a body on record.
        for (const name of bodies.keys()) if (name.startsWith('attempt:')) bodies.delete(name);
        bodies.set(`attempt:${event.data.attempt}`, bytes);
      }
      found = { event, bytes };
      pieces = [];
      parts = [];
    }
  }
  if (found === undefined || (number !== undefined && found.event.data.attempt !== number)) return undefined;
  const { data, at } = found.event;
  const { request } = data;
  const usual = request?.streamed === true ? clientType : 'application/json';
  const contentType = request === undefined || request.bytes === 0 ? undefined : (request.contentType ?? usual);
  const head = { attempt: data, at, contentType };
  if (found.bytes !== undefined) return { ...head, content: { kind: 'body', bytes: found.bytes } };
  if (request?.bytes !== undefined && request.sha256 !== undefined) {
    return { ...head, content: { kind: 'digest', bytes: request.bytes, sha256: request.sha256 } };
  }
  if (request?.streamed !== true) return { ...head, content: { kind: 'unknown' } };
  if (parts.length > 0) return { ...head, content: { kind: 'parts', parts } };
  const kept = pieces.filter((piece) => piece !== undefined);
  if (kept.length < pieces.length) return { ...head, content: { kind: 'unknown' } };
  return { ...head, content: { kind: 'body', bytes: Buffer.concat(kept) } };
}

/** Undefined when the record does not have the bytes. */
function sentBytes(
  request: AttemptRequest | undefined,
  body: Uint8Array | undefined,
  bodies: ReadonlyMap<string, Buffer>,
): Buffer | undefined {
  if (request === undefined || request.bytes === undefined || request.sha256 !== undefined) return undefined;
  const middle = body === undefined ? Buffer.alloc(0) : bufferOf(body);
  if (request.base === undefined) return middle.length === request.bytes ? middle : undefined;
  const base = bodies.get(request.base);
  if (base === undefined) return undefined;
  const { prefixBytes = 0, suffixBytes = 0 } = request;
  const sent = [base.subarray(0, prefixBytes), middle, base.subarray(base.length - suffixBytes)];
  const bytes = Buffer.concat(sent);
  return bytes.length === request.bytes ? bytes : undefined;
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
