/**
 * Clients of background responses and of requests repeated under one idempotency key, also over a crash.
 * They keep their answers; after every restart they fetch the outcome.
 */
import { ask } from '../e2e/gateway-process.ts';
import type { AnswerUnderKey, BackgroundOutcome } from './check-background-and-repeated.ts';
import { type Answer, objectOf, type SentRequest, streamedResponse } from './evidence.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

const MODELS = ['llamacpp/small', 'llamacpp/small-pace-4', 'llamacpp/small-pace-15', 'openai/small-pace-4'] as const;
/** Made by the gateway itself, since the provider does not keep responses. */
const BACKGROUND_MODELS = ['llamacpp/small', 'llamacpp/small-pace-4', 'llamacpp/small-pace-15'] as const;
const REMEMBERED = 6;
const ENDS_WITHIN_MS = 10_000;

interface KeyedRequest {
  readonly key: string;
  readonly path: string;
  readonly body: Buffer;
  readonly stream: boolean;
}

/** One client, over all rounds. */
export class PromiseClient {
  readonly #name: string;
  readonly #chance: Random;
  readonly #given = new Map<string, Buffer[]>();
  /** Background responses whose end is not known yet, with the answers to their cancellations. */
  #promised = new Map<string, Record<string, unknown> | undefined>();
  /** Ends that were seen in earlier rounds. */
  readonly #ended = new Map<string, Record<string, unknown>>();
  #repeated: KeyedRequest[] = [];
  #request = 0;

  constructor(name: string, chance: Random) {
    this.#name = name;
    this.#chance = chance;
  }

  get promises(): number {
    return this.#promised.size + this.#ended.size;
  }

  get keys(): number {
    return this.#given.size;
  }

  /** Sends requests until `stopped` returns true. */
  async run(wire: Wire, stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const answer = this.#chance.happens(0.5) ? await this.#background(wire) : await this.#underKey(wire);
      if (wire.isOver(answer)) return;
    }
  }

  /** Every whole answer of each key. */
  given(): AnswerUnderKey[] {
    return [...this.#given].map(([key, answers]) => ({ key, answers }));
  }

  /** The outcome of every accepted response, some of them once more. */
  async kept(url: string): Promise<BackgroundOutcome[]> {
    const kept: BackgroundOutcome[] = [];
    for (const [id, cancelled] of this.#promised) kept.push({ id, cancelled, ...(await endOf(url, id)) });
    for (const [id, earlier] of this.#ended) {
      if (!this.#chance.happens(0.2)) continue;
      kept.push({ id, earlier, ...(await endOf(url, id)) });
    }
    for (const { id, response } of kept) if (response !== undefined) this.#ended.set(id, response);
    this.#promised = new Map();
    return kept;
  }

  async #background(wire: Wire): Promise<Answer> {
    const chance = this.#chance;
    const stream = chance.happens(0.4);
    const json = {
      model: chance.oneOf(BACKGROUND_MODELS),
      input: `Tell me of number ${chance.between(1, 1e6)}.`,
      background: true,
      stream,
    };
    const key = chance.happens(0.3) ? this.#newKey() : undefined;
    const leaving = stream && chance.happens(0.5) ? { leaveAfterBytes: chance.between(1, 4000) } : {};
    const answer = await this.#ask(wire, '/v1/responses', Buffer.from(JSON.stringify(json)), {
      stream,
      key,
      ...leaving,
    });
    if (answer.status !== 200) return answer;
    const id = stream ? streamedResponse(answer.body).id : objectOf(answer.body)?.id;
    if (typeof id !== 'string') return answer;
    this.#promised.set(id, undefined);
    if (!chance.happens(0.2)) return answer;
    const cancelled = await this.#ask(wire, `/v1/responses/${id}/cancel`, Buffer.from('{}'), { stream: false });
    if (cancelled.status === 200 && cancelled.end === 'whole') this.#promised.set(id, objectOf(cancelled.body));
    return cancelled;
  }

  async #underKey(wire: Wire): Promise<Answer> {
    const request = this.#repeatedOrNew();
    const { path, body, stream, key } = request;
    const leaving = this.#chance.happens(0.2) ? { leaveAfterBytes: this.#chance.between(1, 3000) } : {};
    const answer = await this.#ask(wire, path, body, { stream, key, ...leaving });
    if (isWholeAnswer(answer, stream)) this.#given.set(key, [...(this.#given.get(key) ?? []), answer.body]);
    return answer;
  }

  #repeatedOrNew(): KeyedRequest {
    const chance = this.#chance;
    const known = this.#repeated[chance.between(0, REMEMBERED - 1)];
    if (known !== undefined && chance.happens(0.7)) return known;
    const stream = chance.happens(0.6);
    const model = chance.oneOf(MODELS);
    const text = `Tell me of number ${chance.between(1, 1e6)}.`;
    const isChat = chance.happens(0.5);
    const json = { model, stream, ...(isChat ? { messages: [{ role: 'user', content: text }] } : { input: text }) };
    const path = isChat ? '/v1/chat/completions' : '/v1/responses';
    const made = { key: this.#newKey(), path, body: Buffer.from(JSON.stringify(json)), stream };
    this.#repeated = [made, ...this.#repeated].slice(0, REMEMBERED);
    return made;
  }

  #newKey(): string {
    return `${this.#name}-key-${++this.#request}`;
  }

  #ask(
    wire: Wire,
    path: string,
    body: Buffer,
    facts: { readonly stream: boolean; readonly key?: string | undefined; readonly leaveAfterBytes?: number },
  ): Promise<Answer> {
    const { key, ...rest } = facts;
    const requestId = `${this.#name}-${++this.#request}`;
    const request: SentRequest = {
      ...rest,
      requestId,
      route: 'responses',
      provider: 'llamacpp',
      method: 'POST',
      path,
      body,
    };
    return wire.ask(key === undefined ? request : { ...request, idempotencyKey: key });
  }
}

/** A stream may be whole on the wire and report that it broke off: then it is no answer, and the key is free again. */
function isWholeAnswer({ status, end, body }: Answer, stream: boolean): boolean {
  if (status !== 200 || end !== 'whole') return false;
  if (!stream) return true;
  const { final } = streamedResponse(body);
  const text = body.toString();
  // The gateway may stop between the finish reason and the last event; the stream then ends with that error.
  return final === undefined ? text.endsWith('data: [DONE]\n\n') : final.status === 'completed';
}

/** A response's stream ends when it does. */
async function endOf(
  url: string,
  id: string,
): Promise<{ status: number; response: Record<string, unknown> | undefined }> {
  const signal = AbortSignal.timeout(ENDS_WITHIN_MS);
  try {
    await (await ask(url, `/v1/responses/${id}?stream=true`, { signal })).text();
  } catch {
    // The request below gets its outcome.
  }
  const answer = await ask(url, `/v1/responses/${id}`);
  const response = objectOf(await answer.text());
  return { status: answer.status, response: answer.status === 200 ? response : undefined };
}
