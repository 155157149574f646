/** Clients at a path whose requests a plugin changes. Some requests make the plugin end its own process. */
import { BIRDS } from './check-plugin.ts';
import type { Conversation, SentRequest } from './evidence.ts';
import { answerTo, type KnownQuestion, requestOf } from './known-questions.ts';
import type { Random } from './random.ts';
import type { Wire } from './wire-client.ts';

const features = { cache: true, audit: true, usage: true, guardrails: true };
const steps = [{ ref: 'birds', phase: 'prompt', step: 0 }];
const setUp = [
  ['PUT', '/admin/guardrails', { name: 'birds', type: 'birds', config: {}, fail_mode: 'closed' }],
  [
    'POST',
    '/admin/workflows',
    { scope_user_path: BIRDS, name: BIRDS, workflow_payload: { schema_version: 2, features, steps } },
  ],
] as const;

/** @throws when the gateway refuses the guardrail of the plugin or its workflow */
export async function guardWithPlugin(wire: Wire): Promise<void> {
  for (const [method, path, json] of setUp) {
    const answer = await wire.ask({
      ...{ method, path, route: 'retrieve', provider: 'llamacpp', stream: false, requestId: undefined },
      body: Buffer.from(JSON.stringify(json)),
    });
    if (answer.status !== 200 && answer.status !== 201) throw new Error(`${answer.status}: ${answer.body}`);
  }
}

/** One client, over all rounds. */
export class PluginClient {
  readonly #name: string;
  readonly #chance: Random;
  #count = 0;

  constructor(name: string, chance: Random) {
    this.#name = name;
    this.#chance = chance;
  }

  /** Sends requests until `stopped` returns true; requests and answers go to `evidence`. */
  async run(wire: Wire, evidence: Conversation[], stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const request = this.#next();
      const answer = await wire.ask(request);
      evidence.push({ request, answer });
      if (wire.isOver(answer)) return;
    }
  }

  #next(): SentRequest {
    const chance = this.#chance;
    this.#count += 1;
    const exits = chance.happens(0.01);
    const stream = chance.happens(0.5);
    const question: KnownQuestion = {
      ...{ stream, provider: chance.oneOf(['llamacpp', 'openai']), store: !chance.happens(0.2) },
      route: chance.oneOf(['chat', 'responses', 'messages']),
      model: stream ? chance.oneOf(['small', 'small-pace-4']) : 'small',
      // Some questions recur.
      said: `Heron ${chance.happens(0.5) ? `${this.#name} ${this.#count}` : chance.between(1, 2)} and Heron`,
      ...(exits && { before: 'Exit now! ' }),
    };
    return {
      ...requestOf(question),
      requestId: `${this.#name}-${this.#count}`,
      headers: { 'x-gateway-user-path': BIRDS, 'anthropic-version': '2023-06-01' },
      ...(stream && chance.happens(0.06) && { leaveAfterBytes: chance.between(1, 3000) }),
      plugin: { text: answerTo(question, question.said.replaceAll('Heron', 'bird')), exits },
    };
  }
}
