/**
 * Clients whose requests recur, so that the response cache answers many of them: several at the same time, under two
 * user paths, with the headers that control the cache, and beside purges.
 */

import type { AnswerUnderKey } from './check-background-and-repeated.ts';
import { isWholeAnswer } from './check-guarded.ts';
import type { CachedRequest, Conversation, SentRequest } from './evidence.ts';
import { answerTo, type KnownQuestion, requestOf } from './known-questions.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

export const cachedPaths = ['/cached/a', '/cached/b'] as const;

const QUESTIONS = 14;
const DRAWS_OF_CURRENT = 5;
const REMEMBERED = 6;

/** One after another, so that the questions are of every kind. */
const kinds = [
  ['chat', false],
  ['responses', true],
  ['messages', true],
  ['embeddings', false],
  ['responses', false],
  ['chat', true],
  ['messages', false],
] as const;

/** The questions and the purges of all clients, over all rounds. */
export class CachedTraffic {
  readonly #chance: Random;
  readonly #questions: KnownQuestion[];
  /** Request ids of the purges that were acknowledged, oldest first. */
  readonly acknowledged: string[] = [];
  #current: KnownQuestion;
  #draws = 0;
  #made = 0;

  constructor(chance: Random) {
    this.#chance = chance;
    this.#current = this.#make();
    this.#questions = Array.from({ length: QUESTIONS }, () => this.#make());
  }

  /** Often the question that other clients send at this moment. */
  draw(): KnownQuestion {
    const chance = this.#chance;
    const at = chance.between(0, QUESTIONS - 1);
    if (chance.happens(0.06)) this.#questions[at] = this.#make();
    const drawn = this.#questions[at] ?? this.#current;
    this.#draws += 1;
    if (this.#draws % DRAWS_OF_CURRENT === 0) this.#current = drawn;
    return chance.happens(0.65) ? this.#current : drawn;
  }

  /** It may be lost with the gateway before it is acknowledged. */
  async purge(wire: Wire, requestId: string): Promise<void> {
    const selection = this.#chance.oneOf<object>([
      { all: true },
      { user_path: '/cached' },
      { user_path: cachedPaths[0] },
      { user_path: cachedPaths[1], provider: 'openai' },
      { provider: 'llamacpp' },
      { model: 'small' },
    ]);
    const answer = await wire.ask({
      ...{ method: 'POST', path: '/admin/cache/purge', route: 'retrieve', provider: 'llamacpp', stream: false },
      ...{ requestId, body: Buffer.from(JSON.stringify(selection)) },
    });
    if (answer.status === 200 && answer.end === 'whole') this.acknowledged.push(requestId);
  }

  #make(): KnownQuestion {
    const chance = this.#chance;
    this.#made += 1;
    const [route, stream] = kinds[this.#made % kinds.length] ?? kinds[0];
    const words = Array.from({ length: chance.between(1, 12) }, () => chance.oneOf(['Osprey', 'Kestrel', 'Grüße']));
    return {
      ...{ route, stream, provider: chance.oneOf(['llamacpp', 'openai']), store: !chance.happens(0.2) },
      model: stream ? chance.oneOf(['small', 'small-pace-1', 'small-pace-4']) : 'small',
      said: `${words.join(' ')} ${this.#made}`,
    };
  }
}

interface Control {
  readonly headers: Readonly<Record<string, string>>;
  readonly facts: Partial<Pick<CachedRequest, 'reads' | 'stores' | 'ttlSeconds'>>;
}

const controls: readonly [Control, ...Control[]] = [
  { headers: { 'cache-control': 'no-cache' }, facts: { reads: false } },
  { headers: { 'cache-control': 'no-store' }, facts: { reads: false, stores: false } },
  { headers: { 'x-cache-ttl': '2' }, facts: { ttlSeconds: 2 } },
  { headers: { 'x-cache-ttl': '2' }, facts: { ttlSeconds: 2 } },
];
const uncontrolled: Control = { headers: {}, facts: {} };

/** One client, over all rounds. */
export class CachedClient {
  readonly #name: string;
  readonly #chance: Random;
  readonly #traffic: CachedTraffic;
  /** Whether this client purges: one client does, so that the order of the purges is known. */
  readonly #purges: boolean;
  readonly #given = new Map<string, Buffer[]>();
  #repeatable: SentRequest[] = [];
  #count = 0;

  constructor(name: string, chance: Random, traffic: CachedTraffic, purges: boolean) {
    this.#name = name;
    this.#chance = chance;
    this.#traffic = traffic;
    this.#purges = purges;
  }

  /** Sends requests until `stopped` returns true; requests and answers go to `evidence`. */
  async run(wire: Wire, evidence: Conversation[], stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      if (this.#purges && this.#chance.happens(0.15)) await this.#traffic.purge(wire, this.#newId('purge'));
      const request = this.#again() ?? this.#next();
      const answer = await wire.ask(request);
      evidence.push({ request, answer });
      if (wire.isOver(answer)) return;
      const { idempotencyKey: key } = request;
      if (key === undefined || !isWholeAnswer(request, answer)) continue;
      this.#given.set(key, [...(this.#given.get(key) ?? []), answer.body]);
    }
  }

  /** Every whole answer of each key. */
  given(): AnswerUnderKey[] {
    return [...this.#given].map(([key, answers]) => ({ key, answers }));
  }

  /** The same request under the same key, with an id of its own. */
  #again(): SentRequest | undefined {
    if (!this.#chance.happens(0.1)) return undefined;
    const request = this.#repeatable[this.#chance.between(0, REMEMBERED - 1)];
    if (request?.cached === undefined) return undefined;
    const cached = { ...request.cached, purges: [...this.#traffic.acknowledged] };
    return { ...request, requestId: this.#newId('r'), cached };
  }

  #next(): SentRequest {
    const chance = this.#chance;
    const question = this.#traffic.draw();
    const userPath = chance.oneOf(cachedPaths);
    const { headers, facts } = chance.happens(0.2) ? chance.oneOf(controls) : uncontrolled;
    const cached: CachedRequest = {
      ...{ userPath, text: answerTo(question, question.said), reads: true, stores: true },
      ...facts,
      purges: [...this.#traffic.acknowledged],
    };
    const key = chance.happens(0.12) ? this.#newId('key') : undefined;
    const request: SentRequest = {
      ...requestOf(question),
      requestId: this.#newId('r'),
      headers: { 'x-gateway-user-path': userPath, 'anthropic-version': '2023-06-01', ...headers },
      ...(key !== undefined && { idempotencyKey: key }),
      ...(question.stream && chance.happens(0.06) && { leaveAfterBytes: chance.between(1, 3000) }),
      cached,
    };
    if (key !== undefined) this.#repeatable = [request, ...this.#repeatable].slice(0, REMEMBERED);
    return request;
  }

  #newId(what: string): string {
    this.#count += 1;
    return `${this.#name}-${what}${this.#count}`;
  }
}
