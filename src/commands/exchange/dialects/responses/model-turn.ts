/** One turn of a model in a response whose tools the gateway runs, and the reply that such a response is. */
import { parseExactly } from '../../../../json/exact-json.ts';
import { isObject } from '../../../../json/is-object.ts';
import { type ProviderCall, ProviderFailure, type ProviderReply } from '../../../../providers/provider.ts';
import { END_MARKER, encodeEvent, filled, type JsonObject } from '../../../../providers/translate/json.ts';
import type { ErrorType } from '../../../../providers/upstream-error.ts';
import type { Client, EndReason } from '../../../model-request/model-request.ts';
import { Refusal } from '../../../refusal.ts';
import { MessageClient, type MessageConnection } from '../../delivery/message-client.ts';

export type ModelEvents = AsyncGenerator<JsonObject, void>;

/** Characters of events that wait to be read; above it the model's provider is slowed down. */
const MAX_WAITING = 256 * 1024;

/**
 * The events of a streamed response, read while its exchange runs. An exchange whose events are not read to the end is
 * ended.
 * @throws Refusal, from the generator, when the exchange was refused or failed before its answer
 */
export async function* modelEvents(run: (client: Client) => Promise<void>, signal: AbortSignal): ModelEvents {
  const events = new WaitingEvents();
  const client = new MessageClient(events, '');
  const onAbort = () => client.endEarly(endReasonOf(signal.reason));
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  const running = run(client).then(() => {
    client.close();
    events.finish();
  });
  try {
    for (let event = await events.next(); event !== undefined; event = await events.next()) {
      if (event['type'] === 'error') throw refusalIn(event);
      yield event;
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    events.finish();
    client.endEarly('client_gone');
    await running;
  }
}

const endReasons: readonly unknown[] = ['client_gone', 'gateway_stopping', 'cancelled'] satisfies EndReason[];

function isEndReason(reason: unknown): reason is EndReason {
  return endReasons.includes(reason);
}

function endReasonOf(reason: unknown): EndReason {
  return isEndReason(reason) ? reason : 'client_gone';
}

/** The error in whose place an exchange has no answer, as the client of its messages gets it. */
function refusalIn({ status, error, headers }: JsonObject): Refusal {
  const { type, code, message, param, provider } = isObject(error) ? error : {};
  const seconds = Number(isObject(headers) ? headers['retry-after'] : undefined);
  return new Refusal({
    status: typeof status === 'number' ? status : 500,
    type: (filled(type) ?? 'internal_error') as ErrorType,
    code: filled(code) ?? null,
    message: filled(message) ?? 'The model could not be called.',
    param: filled(param) ?? null,
    ...(filled(provider) !== undefined && { provider: String(provider) }),
    ...(Number.isFinite(seconds) && { retryAfterSeconds: seconds }),
  });
}

class WaitingEvents implements MessageConnection {
  #messages: string[] = [];
  #size = 0;
  #isOver = false;
  #arrived = Promise.withResolvers<void>();
  #drained: PromiseWithResolvers<void> | undefined;

  send(message: string): Promise<void> | undefined {
    if (this.#isOver) return undefined;
    this.#messages.push(message);
    this.#size += message.length;
    this.#arrived.resolve();
    if (this.#size <= MAX_WAITING) return undefined;
    this.#drained ??= Promise.withResolvers<void>();
    return this.#drained.promise;
  }

  over(): void {}

  finish(): void {
    this.#isOver = true;
    this.#arrived.resolve();
    this.#drained?.resolve();
  }

  /** Undefined after the last one. */
  async next(): Promise<JsonObject | undefined> {
    while (this.#messages.length === 0) {
      if (this.#isOver) return undefined;
      await this.#arrived.promise;
      this.#arrived = Promise.withResolvers<void>();
      if (this.#isOver) this.#arrived.resolve();
    }
    const message = this.#messages.shift() ?? '{}';
    this.#size -= message.length;
    if (this.#size <= MAX_WAITING) {
      this.#drained?.resolve();
      this.#drained = undefined;
    }
    const event = parseExactly(message);
    return isObject(event) ? event : {};
  }
}

/** The tokens of two answers together. A report that only one provider makes is left out. */
export function addUsage(sum: JsonObject | null, usage: unknown): JsonObject | null {
  if (!isObject(usage)) return sum;
  const { raw_usage: _ofOneTurn, ...counts } = usage;
  if (sum === null) return counts;
  const names = new Set([...Object.keys(sum), ...Object.keys(counts)]);
  return Object.fromEntries([...names].map((name) => [name, added(sum[name], counts[name])]));
}

function added(one: unknown, other: unknown): unknown {
  if (typeof one === 'number' && typeof other === 'number') return one + other;
  if (isObject(one) && isObject(other)) return addUsage(one, other);
  return other ?? one;
}

/** A response that the gateway makes itself. */
interface MadeResponse {
  /** Without sequence numbers. */
  events(): AsyncGenerator<JsonObject, void>;
  /** Whether something has happened that the client must get to know. */
  readonly isCommitted: boolean;
}

/**
 * The response as the reply of a provider, so that it is recorded, guarded and passed on like one: events for a stream,
 * else the final response object.
 * @param made gets the signal that ends it
 * @throws Refusal for a response that failed before anything was committed; ProviderFailure when the call was ended
 */
export async function replyOf(
  made: (signal: AbortSignal) => MadeResponse,
  { stream, signal }: Pick<ProviderCall, 'stream' | 'signal'>,
  provider: string,
): Promise<ProviderReply> {
  const stopped = new AbortController();
  const either = AbortSignal.any([signal, stopped.signal]);
  const response = made(either);
  const events = response.events();
  const first: JsonObject[] = [];
  const checkEnd = () => {
    if (either.aborted) throw new ProviderFailure(provider, 'aborted', 'the response was ended');
  };
  const next = async () => {
    try {
      return (await events.next()).value ?? undefined;
    } catch (error) {
      checkEnd();
      throw error;
    }
  };
  while (!response.isCommitted) {
    const event = await next();
    checkEnd();
    if (event === undefined) break;
    first.push(event);
  }
  async function* all(): AsyncGenerator<JsonObject> {
    yield* first.splice(0);
    for (let event = await next(); event !== undefined; event = await next()) {
      checkEnd();
      yield event;
    }
    checkEnd();
  }
  if (!stream) {
    let last: JsonObject | undefined;
    for await (const event of all()) last = event;
    const bytes = Buffer.from(JSON.stringify(last?.['response']));
    return {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: bodyOf(wholeOf(bytes), stopped, provider),
    };
  }
  async function* pieces(): AsyncGenerator<Buffer> {
    let sequence_number = 0;
    for await (const { type, sequence_number: _ofTurn, ...members } of all()) {
      yield encodeEvent({ type, sequence_number, ...members }, true);
      sequence_number += 1;
    }
    yield encodeEvent(END_MARKER, false);
  }
  const headers = { 'content-type': 'text/event-stream; charset=utf-8' };
  return { status: 200, headers, body: bodyOf(pieces(), stopped, provider) };
}

async function* wholeOf(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

function bodyOf(pieces: AsyncGenerator<Buffer>, stopped: AbortController, provider: string): ProviderReply['body'] {
  let arrived = 0;
  return {
    async bytes(maxBytes) {
      const all: Buffer[] = [];
      await this.pieces((piece) => {
        if (arrived > maxBytes) throw new ProviderFailure(provider, 'too_large', `it has more than ${maxBytes} bytes`);
        all.push(piece);
      });
      return Buffer.concat(all);
    },
    async pieces(onPiece) {
      try {
        for await (const piece of pieces) {
          arrived += piece.length;
          await onPiece(piece);
        }
      } finally {
        // Ends a turn of the model whose events are not read any more.
        stopped.abort();
      }
    },
    get arrived() {
      return arrived;
    },
    cancel: () => stopped.abort(),
  };
}
