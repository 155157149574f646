/** Asks the provider until there is an answer or no hope of one. Every attempt is told in events. */
import { attemptFailed, attemptStarted, chunkReceived } from '../../events/catalogue/exchange.ts';
import { type Provider, ProviderFailure, type ProviderReply } from '../../providers/provider.ts';
import { isErrorBody, mapUpstreamError } from '../../providers/upstream-error.ts';
import { Refusal, refusals } from '../refusal.ts';
import type { CircuitBreaker } from './circuit-breaker.ts';
import type { Client } from './client.ts';
import type { Target } from './dialect.ts';
import type { Received } from './end-events.ts';
import type { ExchangeRecord } from './exchange-record.ts';
import { isEventStream } from './media-type.ts';
import { refusalFromFailure, refusalFromUpstream } from './refusal-from-upstream.ts';
import { type Plan, type Relay, redacted } from './relay.ts';
import { relayStream } from './relay-stream.ts';
import { type RetryPolicy, retryDelay } from './retry-policy.ts';

const MAX_ERROR_BYTES = 64 * 1024;

export interface AttemptsOptions {
  readonly plan: Plan;
  readonly target: Target;
  readonly record: ExchangeRecord;
  readonly client: Client;
  readonly requestId: string;
  readonly stream: boolean;
  readonly retry: RetryPolicy;
  readonly breaker: CircuitBreaker;
  /** `durable` when the provider may be called only after the request is on disk. */
  readonly recordBeforeCall: 'written' | 'durable';
  readonly keepBodies: boolean;
  readonly maxAnswerBytes: number;
  /** For an answer that is no stream, from its headers to its end. */
  readonly answerTimeoutMs: number;
  readonly random: () => number;
  /** Resolves after the wait, or at once when the signal is aborted. */
  readonly wait: (ms: number, signal: AbortSignal) => Promise<void>;
  answerHeaders(reply: ProviderReply): Record<string, string>;
}

export interface Answered {
  readonly attempt: number;
  readonly plan: Plan;
  readonly relay: Relay;
  readonly received: Received;
}

export type Outcome =
  | (Answered & {
      readonly kind: 'whole';
      readonly reply: ProviderReply;
      readonly bytes: Buffer;
    })
  | (Answered & { readonly kind: 'streamed'; readonly reply: ProviderReply; readonly rest: Buffer[] })
  | (Answered & { readonly kind: 'broken'; readonly refusal: Refusal; readonly rest: Buffer[] })
  | (Answered & { readonly kind: 'abandoned'; readonly rest: Buffer[] })
  | { readonly kind: 'refused'; readonly refusal: Refusal; readonly attempts: number };

interface Failed {
  readonly kind: 'failed';
  readonly refusal: Refusal;
  /** The provider's status, when it answered with one. */
  readonly status?: number;
  readonly failure?: ProviderFailure;
  readonly body?: Buffer;
  readonly retryAfterMs?: number;
}

/** @throws LogUnavailable */
export async function attempts(options: AttemptsOptions): Promise<Outcome> {
  try {
    return await attemptUntilAnswered(options);
  } catch (error) {
    // What failed was not the provider. A probe that ends without a word would keep the breaker shut for ever.
    options.breaker.abandoned();
    throw error;
  }
}

async function attemptUntilAnswered(options: AttemptsOptions): Promise<Outcome> {
  const { record, target, client, breaker } = options;
  const { provider } = target;
  let plan = options.plan;
  let kind: 'primary' | 'retry' | 'translation' = 'primary';
  let tries = 0;
  const openForMs = breaker.refusal();
  if (openForMs !== undefined) {
    const refusal = refusals.circuitOpen(provider.name, Math.ceil(openForMs / 1000));
    return { kind: 'refused', refusal, attempts: 0 };
  }
  for (let attempt = 1; ; attempt++) {
    tries += 1;
    record.note(
      attemptStarted.create(
        {
          attempt,
          kind,
          provider: provider.name,
          providerType: provider.type,
          model: target.model,
          dialect: plan.dialect,
        },
        record.context,
      ),
    );
    await record.flush(options.recordBeforeCall);
    const outcome = await attemptOnce(options, plan, attempt);
    if (outcome.kind !== 'failed') {
      if (outcome.kind === 'abandoned') breaker.abandoned();
      else if (outcome.kind === 'broken') breaker.failed();
      else breaker.succeeded();
      return outcome;
    }

    const { refusal, status, failure, body } = outcome;
    const other = status === undefined ? undefined : await plan.instead?.(status, refusal.code);
    const stopped = client.ended.aborted || failure?.kind === 'aborted';
    const retryInMs =
      other !== undefined || stopped
        ? undefined
        : retryDelay(
            { attempt: tries, status, transport: failure?.kind, retryAfterMs: outcome.retryAfterMs },
            options.retry,
            options.random,
          );
    record.note(
      attemptFailed.create(
        { attempt, status, code: refusal.code, message: refusal.message, retryInMs, durationMs: record.elapsed() },
        record.context,
        options.keepBodies ? body : undefined,
      ),
    );
    if (stopped) {
      breaker.abandoned();
      return { kind: 'abandoned', rest: [], attempt, plan, relay: plan.relay(), received: nothingYet() };
    }
    if (other !== undefined) {
      breaker.succeeded();
      plan = other;
      kind = 'translation';
      tries = 0;
      continue;
    }
    if (retryInMs === undefined) {
      breaker.ended(status);
      return { kind: 'refused', refusal, attempts: attempt };
    }
    await options.wait(retryInMs, client.ended);
    if (client.ended.aborted) {
      breaker.abandoned();
      return { kind: 'abandoned', rest: [], attempt, plan, relay: plan.relay(), received: nothingYet() };
    }
    kind = 'retry';
  }
}

async function attemptOnce(
  options: AttemptsOptions,
  plan: Plan,
  attempt: number,
): Promise<Exclude<Outcome, { kind: 'refused' }> | Failed> {
  const { record, target, client, keepBodies } = options;
  const provider = target.provider.name;
  const relay = plan.relay();
  const received = nothingYet();
  const answered = { attempt, plan, relay, received };
  try {
    const reply = await target.provider.send({
      dialect: plan.dialect,
      body: plan.body,
      stream: options.stream,
      requestId: options.requestId,
      signal: client.ended,
    });
    if (reply.status >= 400) return refused(reply, await reply.body.bytes(MAX_ERROR_BYTES), target.provider);
    const isStream = isEventStream(reply.headers);
    if (options.stream && isStream) {
      const headers = options.answerHeaders(reply);
      const end = await relayStream({ reply, relay, record, client, attempt, received, provider, keepBodies, headers });
      if (end.kind === 'failed') return { ...end, status: end.failure === undefined ? end.refusal.status : undefined };
      if (end.kind === 'complete') return { ...answered, kind: 'streamed', reply, rest: end.rest };
      return { ...answered, ...end };
    }
    const bytes = await wholeBody(reply, options, provider);
    received.firstByteMs = record.elapsed();
    const parsed = parseAnswer(bytes);
    if (isErrorBody(parsed)) return refused(reply, bytes, target.provider);
    if (parsed === undefined || options.stream) {
      const what = reply.headers['content-type'] ?? 'no content type';
      const expected = options.stream ? 'an event stream' : 'JSON';
      return {
        kind: 'failed',
        refusal: refusals.badAnswer(
          provider,
          `The provider '${provider}' answered with ${what} where ${expected} was expected.`,
        ),
        status: 502,
        body: bytes.subarray(0, MAX_ERROR_BYTES),
      };
    }
    received.chunks = 1;
    received.bytes = bytes.length;
    record.note(chunkReceived.create({ attempt, index: 0 }, record.context, keepBodies ? bytes : undefined));
    return { ...answered, kind: 'whole', reply, bytes: relay.whole(bytes, parsed) };
  } catch (error) {
    if (error instanceof ProviderFailure) return { kind: 'failed', refusal: refusalFromFailure(error), failure: error };
    if (error instanceof Refusal) return { kind: 'failed', refusal: error, status: error.status };
    throw error;
  }
}

function refused(reply: ProviderReply, body: Buffer, provider: Provider): Failed {
  const mapped = mapUpstreamError({ status: reply.status, headers: reply.headers, body, provider });
  const refusal = refusalFromUpstream(mapped);
  const { retryAfterSeconds } = refusal;
  const retryAfterMs = retryAfterSeconds === undefined ? undefined : retryAfterSeconds * 1000;
  return { kind: 'failed', refusal, status: mapped.status, body: redacted(body, provider), retryAfterMs };
}

/** @throws ProviderFailure, with `timeout` when the answer takes longer than a whole one may */
async function wholeBody(reply: ProviderReply, options: AttemptsOptions, provider: string): Promise<Buffer> {
  let expired = false;
  const timer = setTimeout(() => {
    expired = true;
    reply.body.cancel();
  }, options.answerTimeoutMs);
  try {
    return await reply.body.bytes(options.maxAnswerBytes);
  } catch (error) {
    if (!expired) throw error;
    throw new ProviderFailure(provider, 'timeout', `its answer took longer than ${options.answerTimeoutMs} ms`, error);
  } finally {
    clearTimeout(timer);
  }
}

function parseAnswer(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

function nothingYet(): Received {
  return { chunks: 0, bytes: 0, firstByteMs: undefined };
}
