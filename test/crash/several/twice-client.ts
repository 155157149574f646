/** The same request under one idempotency key at two gateways at once, and a third time later. */
import type { AnswerUnderKey } from '../check-background-and-repeated.ts';
import { isWholeAnswer } from '../check-guarded.ts';
import type { Answer, Conversation, SentRequest } from '../evidence.ts';
import { type KnownQuestion, requestOf } from '../known-questions.ts';
import type { Random } from '../random.ts';
import type { SpreadWire } from './spread-wire.ts';

export class TwiceClient {
  readonly #name: string;
  readonly #chance: Random;
  readonly #given = new Map<string, Buffer[]>();
  #count = 0;

  constructor(name: string, chance: Random) {
    this.#name = name;
    this.#chance = chance;
  }

  async run(wires: readonly SpreadWire[], evidence: Conversation[], stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const request = this.#next();
      const ask = async (wire: SpreadWire) => {
        this.#count += 1;
        const sent: SentRequest = { ...request, requestId: `${this.#name}-r${this.#count}` };
        const answer = await wire.ask(sent);
        evidence.push({ request: sent, answer });
        this.#keep(sent, answer);
      };
      await Promise.all(wires.map(ask));
      const [wire] = wires;
      if (wire !== undefined && this.#chance.happens(0.4) && !stopped()) await ask(wire);
    }
  }

  /** Every whole answer of each key. */
  given(): AnswerUnderKey[] {
    return [...this.#given].map(([key, answers]) => ({ key, answers }));
  }

  #next(): Omit<SentRequest, 'requestId'> & { readonly idempotencyKey: string } {
    const chance = this.#chance;
    this.#count += 1;
    const stream = chance.happens(0.5);
    const question: KnownQuestion = {
      ...{ stream, provider: chance.oneOf(['llamacpp', 'openai']), store: true },
      route: chance.oneOf(['chat', 'responses']),
      model: stream ? chance.oneOf(['small', 'small-pace-4', 'small-pace-15']) : 'small',
      said: `Twice ${this.#name} ${this.#count}`,
    };
    return { ...requestOf(question), idempotencyKey: `${this.#name}-key${this.#count}` };
  }

  #keep(request: SentRequest, answer: Answer): void {
    const { idempotencyKey: key } = request;
    if (key === undefined || !isWholeAnswer(request, answer)) return;
    this.#given.set(key, [...(this.#given.get(key) ?? []), answer.body]);
  }
}
