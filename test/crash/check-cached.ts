/** Answers from the response cache: whose they are, how long they are served, and that they are the recorded ones. */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { cacheHit } from '../../src/events/catalogue/cache.ts';
import { parsePosition } from '../../src/events/event.ts';
import { isObject } from '../../src/json/is-object.ts';
import { isSelected, type StoredAnswer } from './cache-history.ts';
import { endsOf } from './check-exchanges.ts';
import { isWholeAnswer, textOf } from './check-guarded.ts';
import {
  type Answer,
  type CachedRequest,
  type Conversation,
  objectOf,
  type SentRequest,
  streamedResponse,
  type Violation,
} from './evidence.ts';
import { eventOf, type RecordedExchange, type RecordedLog } from './recorded-log.ts';

type Complain = (check: string, what: string) => void;

/** The record of every hit, and of every answer that was offered to later requests. */
export function checkCachedExchanges(log: RecordedLog): Violation[] {
  const found: Violation[] = [];
  for (const exchange of log.exchanges.values()) {
    const complain: Complain = (check, what) => found.push({ check, what: `exchange ${exchange.id}: ${what}` });
    if (hitOf(exchange) !== undefined) checkHit(exchange, log, complain);
    if (eventOf(exchange, 'cache.stored') !== undefined && endsOf(exchange)[0]?.type !== 'exchange.completed') {
      complain('cache stored', 'its answer is not whole');
    }
  }
  return found;
}

function hitOf(exchange: RecordedExchange): z.infer<typeof cacheHit.data> | undefined {
  const event = eventOf(exchange, cacheHit.type);
  return event === undefined ? undefined : cacheHit.data.parse(event.data);
}

const usageOfHit = z.object({ cacheType: z.literal('exact'), totalCost: z.literal('0') });

/** No provider is called for a hit, and it costs nothing. It is served before it expires, to the path of its entry. */
function checkHit(exchange: RecordedExchange, log: RecordedLog, complain: Complain): void {
  const { events } = exchange;
  const hit = hitOf(exchange);
  const types = events.map(({ type }) => type);
  for (const type of ['attempt.started', 'chunk.received', 'cache.stored', 'answer.replayed']) {
    if (types.includes(type)) complain('cache hit', `it has ${type}: ${types.join(', ')}`);
  }
  if (types.filter((type) => type === cacheHit.type).length !== 1) complain('cache hit', 'it has two hits');
  if (endsOf(exchange)[0]?.type !== 'exchange.completed') complain('cache hit', `it ended: ${types.join(', ')}`);
  const usages = events.filter(({ type }) => type === 'usage.recorded');
  if (usages.length !== 1 || !usageOfHit.safeParse(usages[0]?.data).success) {
    complain('cache hit', `its usage is ${JSON.stringify(usages.map(({ data }) => data))}`);
  }
  const [received] = events;
  const stored = log.cache.stored.get(hit?.exchangeId ?? '');
  const event = eventOf(exchange, cacheHit.type);
  if (hit === undefined || received === undefined || event === undefined) return;
  if (stored === undefined) {
    complain('cache source', `nothing is on record as cached by ${hit.exchangeId}`);
    return;
  }
  if (stored.position >= parsePosition(event.position)) complain('cache source', 'it precedes its entry');
  if (stored.digest !== hit.digest) complain('cache source', `its digest is not that of ${hit.exchangeId}`);
  const { userPath = '' } = received.context;
  if (stored.userPath !== userPath) complain('cache scope', `${userPath} got an answer of ${stored.userPath}`);
  if (stored.expiresAt <= received.at) {
    complain('cache expiry', `it was received ${received.at - stored.expiresAt} ms after its entry had expired`);
  }
}

/** The answers of cached endpoints as their clients got them. Call it once per round. */
export function checkCachedAnswers(conversations: readonly Conversation[], log: RecordedLog): Violation[] {
  const found: Violation[] = [];
  const whole: { readonly exchange: RecordedExchange; readonly answer: Answer; readonly complain: Complain }[] = [];
  for (const { request, answer } of conversations) {
    if (!cachedRoutes.has(request.route)) continue;
    const exchange = log.exchanges.get(answer.headers['x-exchange-id'] ?? '');
    if (answer.status !== 200 || exchange === undefined) continue;
    const name = `${request.method} ${request.path} (request ${request.requestId}, exchange ${exchange.id})`;
    const complain: Complain = (check, what) => found.push({ check, what: `${name}: ${what}` });
    if (request.cached !== undefined) checkKnown(request, request.cached, { answer, exchange, log, complain });
    if (eventOf(exchange, 'answer.replayed') !== undefined) continue;
    const hit = hitOf(exchange);
    const header = answer.headers['x-cache'] ?? '';
    if (header.startsWith('HIT') !== (hit !== undefined)) {
      complain('cache header', `X-Cache is '${header}', and the log has ${hit === undefined ? 'no' : 'a'} cache.hit`);
    }
    if (!isWholeAnswer(request, answer)) continue;
    checkIds(request, answer, { exchange, log, complain });
    if (hit === undefined) log.cache.answers.set(exchange.id, digestOf(answer.body));
    else whole.push({ exchange, answer, complain });
  }
  for (const { exchange, answer, complain } of whole) {
    const original = log.cache.answers.get(hitOf(exchange)?.exchangeId ?? '');
    if (original !== undefined && original !== digestOf(answer.body)) {
      complain('cache bytes', 'it differs from the first answer in more than ids and times');
    }
  }
  return found;
}

const cachedRoutes: ReadonlySet<string> = new Set(['chat', 'responses', 'messages', 'embeddings']);

interface Known {
  readonly answer: Answer;
  readonly exchange: RecordedExchange;
  readonly log: RecordedLog;
  readonly complain: Complain;
}

/** What the client knows: the text, what its headers allow, and which purges precede its request. */
function checkKnown(request: SentRequest, cached: CachedRequest, { answer, exchange, log, complain }: Known): void {
  const { userPath, text, reads, stores, ttlSeconds, purges } = cached;
  const actual = request.route === 'embeddings' ? vectorIn(answer.body) : textOf(request, answer.body);
  const isWhole = isWholeAnswer(request, answer);
  const isPart = request.stream && text.startsWith(actual);
  if (isWhole ? actual !== text : request.stream && !isPart) {
    complain('cache text', `it is ${JSON.stringify(actual.slice(0, 200))}, not ${JSON.stringify(text.slice(0, 200))}`);
  }
  if (isWhole && endsOf(exchange)[0]?.type !== 'exchange.completed') {
    complain('completed', `a whole answer arrived, and the log says ${endsOf(exchange)[0]?.type}`);
  }
  const recordedPath = exchange.events[0]?.context.userPath;
  if (recordedPath !== userPath) complain('cache scope', `sent at ${userPath}, and recorded at ${recordedPath}`);
  const stored = log.cache.stored.get(exchange.id);
  if (stored !== undefined && !stores) complain('cache control', 'its answer is cached in spite of no-store');
  if (stored !== undefined && ttlSeconds !== undefined && stored.expiresAt - stored.at > ttlSeconds * 1000) {
    complain('cache control', `its answer is cached until ${stored.expiresAt - stored.at} ms after its end`);
  }
  const hit = hitOf(exchange);
  if (hit === undefined) return;
  if (!reads) complain('cache control', 'it is a hit in spite of no-cache');
  checkPurges(log.cache.stored.get(hit.exchangeId), purges, log, complain);
}

function checkPurges(
  entry: StoredAnswer | undefined,
  acknowledged: readonly string[],
  { cache }: RecordedLog,
  complain: Complain,
): void {
  for (const requestId of acknowledged) {
    const purge = cache.purges.get(requestId);
    if (purge === undefined) complain('purge', `the acknowledged purge ${requestId} is not on record`);
    else if (entry !== undefined && entry.began < purge.position && isSelected(entry, purge)) {
      complain(
        'purge',
        `its entry, which began at ${entry.began}, was removed by the purge ${requestId} at ${purge.position}`,
      );
    }
  }
}

function vectorIn(body: Buffer): string {
  const data = objectOf(body)?.data;
  const [first]: unknown[] = Array.isArray(data) ? data : [];
  return JSON.stringify(isObject(first) ? first.embedding : undefined) ?? '';
}

/** Each caller owns its answer. Providers make ids of their own, so ids are compared per provider. */
function checkIds(request: SentRequest, { body }: Answer, { exchange, log, complain }: Omit<Known, 'answer'>): void {
  const { idempotencyKey: key, provider } = request;
  for (const id of idsIn(request, body)) {
    const first = log.cache.issued.get(`${provider} ${id}`);
    if (first === undefined) log.cache.issued.set(`${provider} ${id}`, { exchangeId: exchange.id, key });
    else if (first.exchangeId !== exchange.id && (key === undefined || first.key !== key)) {
      complain('ids', `${id} was issued for exchange ${first.exchangeId}`);
    }
  }
}

function idsIn({ route, stream }: SentRequest, body: Buffer): string[] {
  if (route === 'responses') {
    const response = stream ? streamedResponse(body).final : objectOf(body);
    const items: unknown[] = Array.isArray(response?.output) ? response.output : [];
    return [response, ...items].flatMap((one) => (isObject(one) && typeof one.id === 'string' ? [one.id] : []));
  }
  // All events of a stream have the id of the first.
  const [, id] = /"id":\s*"([^"]+)"/.exec(body.toString('utf8', 0, 2000)) ?? [];
  return id === undefined ? [] : [id];
}

const IDS = /"(id|item_id|response_id)":\s*"[^"]*"/g;
const TIMES = /"(created|created_at|completed_at)":\s*\d+/g;

function digestOf(body: Buffer): string {
  const rest = body.toString().replaceAll(IDS, '"$1":""').replaceAll(TIMES, '"$1":0');
  return createHash('sha256').update(rest).digest('hex');
}
