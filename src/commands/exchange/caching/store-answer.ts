/** Offers the answer of an exchange to later requests. */
import { answerCached } from '../../../events/catalogue/cache.ts';
import type { Appended } from '../../../events/log.ts';
import type { ParsedRequest } from '../../model-request/model-request.ts';
import type { Target } from '../../model-request/routing-types.ts';
import type { ExchangeDialect } from '../dialect.ts';
import type { ExchangeRecord } from '../exchange-record.ts';
import type { AttemptEnd } from '../plan.ts';
import type { EmbeddedQuestion } from './request-digest.ts';
import type { Flight, ResponseCache } from './response-cache.ts';

/** Where the answer of a request that missed the cache may be kept. */
export interface CachePlace {
  readonly digest: string;
  /** Others wait for this answer; undefined when they do not. */
  readonly flight: Flight | undefined;
  readonly ttlSeconds: number;
  /** The purges before the request. */
  readonly purges: number;
  /** The first candidate: answers of others are not kept, because they come from failover. */
  readonly first: Target;
  readonly allowsToolCalls: boolean;
  /** Under which similar requests find the answer; undefined when they do not. */
  question: EmbeddedQuestion | undefined;
  /** Whether the flight ends with the append, and not with the exchange. */
  isKept: boolean;
}

export interface AnsweredExchange {
  readonly dialect: ExchangeDialect;
  readonly parsedRequest: ParsedRequest;
  readonly target: Target;
  readonly record: ExchangeRecord;
  /** Guardrails changed the headers of the answer, or warned about it: a hit would not repeat that. */
  readonly hasAnswerEffects: boolean;
  readonly place: CachePlace;
}

/**
 * Notes the answer as cached, for the append of its end.
 * @returns what to call with that append
 */
export function noteCached(
  outcome: Extract<AttemptEnd, { kind: 'whole' | 'streamed' }>,
  { dialect, parsedRequest, target, record, hasAnswerEffects, place }: AnsweredExchange,
  cache: ResponseCache,
): ((appended: Appended | undefined) => void) | undefined {
  const { reply, received, answer } = outcome;
  const { digest, ttlSeconds, purges, first, allowsToolCalls } = place;
  const bytes = outcome.kind === 'whole' ? outcome.bytes.length : received.bytes;
  if (reply.status !== 200 || target !== first || ttlSeconds <= 0 || hasAnswerEffects) return undefined;
  if (bytes > cache.settings.maxAnswerBytes || purges !== cache.purges) return undefined;
  if (!endsRegularly(dialect, answer.writer.finishReason ?? null, allowsToolCalls)) return undefined;
  const expiresAt = Math.floor(cache.now()) + ttlSeconds * 1000;
  record.note(
    answerCached.create(
      {
        digest,
        partition: cache.semantic === undefined ? undefined : place.question?.partition,
        expiresAt,
        dialect: dialect.name,
        stream: parsedRequest.stream,
        provider: target.provider.name,
        model: target.model,
        bytes,
        purges,
      },
      record.context,
    ),
  );
  const addVector = noteVector(place, expiresAt, record, cache);
  place.isKept = true;
  return (appended) => {
    const indexed = appended === undefined ? Promise.resolve() : cache.whenIndexed(appended.position);
    addVector?.(indexed);
    indexed.then(
      () => place.flight?.finish('cached'),
      () => place.flight?.finish('not_cached'),
    );
  };
}

/** @returns what to call with the end of the indexing of the answer: a search removes a vector without an answer */
function noteVector(
  { digest, question }: CachePlace,
  answerExpiresAt: number,
  record: ExchangeRecord,
  { semantic }: ResponseCache,
): ((indexed: Promise<void>) => void) | undefined {
  if (question === undefined || semantic === undefined) return undefined;
  const stored = { digest, ...question, expiresAt: semantic.expiry(answerExpiresAt) };
  const event = semantic.eventOf(stored, record.context);
  if (event !== undefined) record.note(event);
  return (indexed) => semantic.add(stored, indexed);
}

/** Finish reasons of whole answers, by dialect; a `length` or a filter cut the others. */
const regularEnds: Readonly<Record<string, readonly (string | null)[]>> = {
  chat: ['stop'],
  responses: ['completed'],
  messages: ['end_turn', 'stop_sequence'],
  embeddings: [null],
};
const toolCallEnds: readonly (string | null)[] = ['tool_calls', 'function_call', 'tool_use'];

function endsRegularly({ name }: ExchangeDialect, finishReason: string | null, allowsToolCalls: boolean): boolean {
  if (allowsToolCalls && toolCallEnds.includes(finishReason)) return true;
  return regularEnds[name]?.includes(finishReason) === true;
}
