/** The requests of the clients: every route, JSON and streams, native and translated, one after another. */

import { type Conversation, objectOf, type ProviderName, type SentRequest, streamedResponse } from './evidence.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

/** The simulated provider waits so many milliseconds between the frames of a stream. */
const PACED = ['small-pace-1', 'small-pace-4', 'small-pace-15'] as const;
export const MODELS = ['small', ...PACED, 'embed', 'budgeted'];

/** A response that its client may still fetch, continue or delete. */
interface Kept {
  readonly id: string;
  readonly provider: ProviderName;
  /** The word in the first turn of its chain. */
  readonly word: string;
  readonly seen: Record<string, unknown>;
}

const REMEMBERED = 12;

/** One client, over all rounds: it continues conversations that began before a crash. */
export class LoadClient {
  readonly #name: string;
  readonly #chance: Random;
  readonly #largeAnswers: number;
  #kept: Kept[] = [];
  #request = 0;

  /** @param largeAnswers share (0 to 1) of the requests whose answers are large */
  constructor(name: string, chance: Random, largeAnswers: number) {
    this.#name = name;
    this.#chance = chance;
    this.#largeAnswers = largeAnswers;
  }

  /** Sends requests until `stopped` returns true; requests and answers go to `evidence`. */
  async run(wire: Wire, evidence: Conversation[], stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const request = this.#next();
      const answer = await wire.ask(request);
      evidence.push({ request, answer });
      if (wire.isOver(answer)) return;
      const made = this.#remember({ request, answer });
      if (made === undefined || stopped() || !this.#chance.happens(0.4)) continue;
      const retrieval = this.#retrieve(made);
      evidence.push({ request: retrieval, answer: await wire.ask(retrieval) });
    }
  }

  #next(): SentRequest {
    const chance = this.#chance;
    const provider = chance.oneOf(['llamacpp', 'openai']);
    const kind = chance.between(1, 100);
    if (kind <= 12) return this.#chat(provider, false);
    if (kind <= 34) return this.#chat(provider, true);
    if (kind <= 44) return this.#response(provider, false);
    if (kind <= 60) return this.#response(provider, true);
    if (kind <= 74) return this.#followUp();
    if (kind <= 82) return this.#embeddings();
    if (kind <= 92) return this.#passthrough();
    return this.#delete();
  }

  #chat(provider: ProviderName, stream: boolean): SentRequest {
    const chance = this.#chance;
    const wantsUsage = chance.happens(0.3);
    const model = stream ? chance.oneOf(PACED) : 'small';
    return this.#post('/v1/chat/completions', {
      route: 'chat',
      provider,
      stream,
      wantsUsage,
      ...this.#leaving(stream),
      json: {
        model: `${provider}/${model}`,
        stream,
        ...(stream && wantsUsage ? { stream_options: { include_usage: true } } : {}),
        messages: [{ role: 'user', content: `${this.#text()} Tell me of number ${chance.between(1, 1e6)}.` }],
        ...this.#large(),
      },
    });
  }

  #response(provider: ProviderName, stream: boolean): SentRequest {
    const word = `w${this.#chance.between(1000, 999_999)}`;
    const store = !this.#chance.happens(0.15);
    return this.#post('/v1/responses', {
      route: 'responses',
      provider,
      stream,
      store,
      ...this.#leaving(stream),
      json: {
        model: `${provider}/${stream ? this.#chance.oneOf(PACED) : 'small'}`,
        stream,
        input: `${this.#text()} My word is ${word}. Tell me something of it.`,
        ...(store ? {} : { store }),
        metadata: { word },
        ...this.#large(),
      },
    });
  }

  /** A request that only the turns before it can answer. */
  #followUp(): SentRequest {
    const previous = this.#oneKept();
    const stream = this.#chance.happens(0.5);
    if (previous === undefined) return this.#response(this.#chance.oneOf(['llamacpp', 'openai']), stream);
    const { provider, word, id } = previous;
    return this.#post('/v1/responses', {
      route: 'responses',
      provider,
      stream,
      store: true,
      recalls: word,
      json: {
        model: `${provider}/${stream ? this.#chance.oneOf(PACED) : 'small'}`,
        stream,
        input: 'What is my word?',
        previous_response_id: id,
        metadata: { word },
      },
    });
  }

  #embeddings(): SentRequest {
    const provider = this.#chance.oneOf(['llamacpp', 'openai']);
    const input = Array.from({ length: this.#chance.between(1, 8) }, () => this.#text());
    const json = { model: `${provider}/embed`, input };
    return this.#post('/v1/embeddings', { route: 'embeddings', provider, stream: false, json });
  }

  #passthrough(): SentRequest {
    const facts = { route: 'passthrough', provider: 'llamacpp' } as const;
    switch (this.#chance.between(1, 3)) {
      case 1:
        return this.#post('/p/llamacpp/tokenize', { ...facts, stream: false, json: { content: this.#text() } });
      case 2:
        return { ...facts, stream: false, method: 'GET', path: '/p/llamacpp/health', requestId: this.#requestId() };
      default: {
        const messages = [{ role: 'user', content: this.#text() }];
        const json = { model: this.#chance.oneOf(PACED), stream: true, messages };
        return this.#post('/p/llamacpp/chat/completions', { ...facts, stream: true, ...this.#leaving(true), json });
      }
    }
  }

  #retrieve(kept: Kept): SentRequest {
    const { id, provider, seen } = kept;
    return { ...this.#lifecycle('GET', id, provider), route: 'retrieve', shows: seen };
  }

  #delete(): SentRequest {
    const kept = this.#oneKept();
    if (kept === undefined) return this.#embeddings();
    // Whatever the answer, this client no longer continues it, nor any response that continued it.
    this.#kept = this.#kept.filter(({ word }) => word !== kept.word);
    return { ...this.#lifecycle('DELETE', kept.id, kept.provider), route: 'delete' };
  }

  #lifecycle(method: 'GET' | 'DELETE', responseId: string, provider: ProviderName) {
    const requestId = this.#requestId();
    return { method, path: `/v1/responses/${responseId}`, responseId, provider, requestId, stream: false };
  }

  #post(path: string, facts: Omit<SentRequest, 'method' | 'path' | 'requestId'> & { json: object }): SentRequest {
    const { json, ...rest } = facts;
    const requestId = this.#requestId();
    return { ...rest, method: 'POST', path, body: Buffer.from(JSON.stringify(json)), requestId };
  }

  /** Some clients send no request id. */
  #requestId(): string | undefined {
    this.#request += 1;
    return this.#chance.happens(0.1) ? undefined : `${this.#name}-${this.#request}`;
  }

  /** Some hang up in the middle. */
  #leaving(stream: boolean): { leaveAfterBytes?: number } {
    return stream && this.#chance.happens(0.06) ? { leaveAfterBytes: this.#chance.between(1, 3000) } : {};
  }

  /** Some answers are large enough that a kill can tear the write that records them. */
  #large(): { simulate?: object } {
    if (!this.#chance.happens(this.#largeAnswers)) return {};
    return { simulate: { oversizedBytes: this.#chance.between(50_000, 600_000) } };
  }

  /** Mostly short, sometimes long; with characters of more than one byte. */
  #text(): string {
    const long = this.#chance.happens(0.04) ? this.#chance.between(1000, 60_000) : this.#chance.between(1, 40);
    return `${'Grüße — 你好 '.repeat(Math.ceil(long / 12))}${this.#chance.between(0, 1e9)}.`;
  }

  #oneKept(): Kept | undefined {
    return this.#kept.length === 0 ? undefined : this.#kept[this.#chance.between(0, this.#kept.length - 1)];
  }

  #remember({ request, answer }: Conversation): Kept | undefined {
    if (request.route !== 'responses' || request.store === false || answer.status !== 200) return undefined;
    if (!request.stream && answer.end !== 'whole') return undefined;
    const seen = request.stream ? streamedResponse(answer.body).final : objectOf(answer.body);
    const word = objectOf(request.body ?? '')?.metadata;
    if (seen?.status !== 'completed' || typeof seen.id !== 'string') return undefined;
    const made: Kept = { id: seen.id, provider: request.provider, word: wordIn(word), seen };
    this.#kept = [...this.#kept.slice(-REMEMBERED), made];
    return made;
  }
}

function wordIn(metadata: unknown): string {
  const word: unknown = typeof metadata === 'object' && metadata !== null ? Reflect.get(metadata, 'word') : undefined;
  return typeof word === 'string' ? word : '';
}
