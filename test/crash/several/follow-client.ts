/** Background responses that are created at one gateway and followed at another, from any place of their stream. */
import { isDeepStrictEqual } from 'node:util';
import { dataOf, framesOf, objectOf, type SentRequest, streamedResponse, type Violation } from '../evidence.ts';
import type { Random } from '../random.ts';
import type { SpreadWire } from './spread-wire.ts';

const ENDED = new Set<unknown>(['completed', 'incomplete', 'failed', 'cancelled']);

export class FollowClient {
  readonly #name: string;
  readonly #chance: Random;
  #violations: Violation[] = [];
  #count = 0;
  /** Streams that came to their end. */
  followed = 0;

  constructor(name: string, chance: Random) {
    this.#name = name;
    this.#chance = chance;
  }

  async run(wire: SpreadWire, stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const created = await wire.ask(this.#request('POST', '/v1/responses', this.#background()));
      const id = created.status === 200 && created.end === 'whole' ? objectOf(created.body)?.id : undefined;
      if (typeof id === 'string') await this.#follow(wire, id);
    }
  }

  /** Those since the last call. */
  violations(): Violation[] {
    return this.#violations.splice(0);
  }

  async #follow(wire: SpreadWire, id: string): Promise<void> {
    const after = this.#chance.happens(0.4) ? this.#chance.between(0, 6) : undefined;
    const cursor = after === undefined ? '' : `&starting_after=${after}`;
    const answer = await wire.ask(this.#request('GET', `/v1/responses/${id}?stream=true${cursor}`));
    if (answer.status === 404) return this.#complain(id, 'a gateway does not know it after its id had arrived');
    if (answer.status !== 200) return;
    const numbers = framesOf(answer.body).frames.flatMap((frame) => {
      const number = dataOf(frame)?.sequence_number;
      return typeof number === 'number' ? [number] : [];
    });
    const first = after === undefined ? 0 : after + 1;
    if (numbers.some((number, index) => number !== first + index)) {
      this.#complain(id, `followed after ${after}, its events are numbered ${numbers.join(', ')}`);
    }
    const { final } = streamedResponse(answer.body);
    if (answer.end !== 'whole' || final === undefined) return;
    this.followed += 1;
    const again = await wire.ask(this.#request('GET', `/v1/responses/${id}`));
    if (again.status === 404) return this.#complain(id, 'a gateway does not know it after its end had arrived');
    if (again.status !== 200 || again.end !== 'whole') return;
    const shown = objectOf(again.body);
    if (ENDED.has(final['status']) && !isDeepStrictEqual(shown, final)) {
      this.#complain(id, `its stream ended as ${final['status']}, and another gateway shows ${shown?.['status']}`);
    }
  }

  #complain(id: string, what: string): void {
    this.#violations.push({ check: 'followed', what: `background response ${id}: ${what}` });
  }

  #background(): object {
    const model = this.#chance.oneOf(['llamacpp/small', 'llamacpp/small-pace-4', 'llamacpp/small-pace-15']);
    return { model, background: true, input: `Tell me of number ${this.#chance.between(1, 1e6)}.` };
  }

  #request(method: 'GET' | 'POST', path: string, json?: object): SentRequest {
    this.#count += 1;
    const facts = { route: 'retrieve', provider: 'llamacpp', stream: false } as const;
    const body = json === undefined ? {} : { body: Buffer.from(JSON.stringify(json)) };
    return { ...facts, requestId: `${this.#name}-${this.#count}`, method, path, ...body };
  }
}
