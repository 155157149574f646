/** Values that a guardrail hides reach no provider, whatever turns a client sends, on whatever model, over restarts. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { cardNumbers, ibans } from '../../guardrails/valid-numbers.ts';
import type { Answered } from '../../support/answered.ts';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { saved } from '../../support/several-providers.ts';
import { dataOf, json, modelsListed } from '../../support/with-gateway.ts';

const models = ['openai/simulated-small', 'llamacpp/simulated-small', 'spare'] as const;
const kinds = ['new', 'previous_response_id', 'conversation', 'item_reference'] as const;

interface Turn {
  readonly kind: (typeof kinds)[number];
  readonly model: (typeof models)[number];
  readonly stream: boolean;
  readonly store: boolean;
  /** The gateway is started again before the turn. */
  readonly restarts: boolean;
  /** A question that only earlier turns can answer, in place of a new text. */
  readonly asks: boolean;
  /** Where the values of the turn are, besides its input. */
  readonly where: 'input' | 'instructions' | 'metadata' | 'user';
  readonly values: readonly string[];
}

const words = fc.string({ unit: fc.constantFrom(...'abcdefghij'), minLength: 3, maxLength: 8 });
const values = fc.oneof(
  fc.tuple(words, words).map(([name, domain]) => `${name}@${domain}.example`),
  cardNumbers,
  ibans,
  fc.constantFrom('+49 30 901820', '078-05-1120', '12345678Z', 'X1234567L'),
);
const turns: fc.Arbitrary<Turn> = fc.record({
  kind: fc.constantFrom(...kinds),
  model: fc.constantFrom(...models),
  stream: fc.boolean(),
  store: fc.nat({ max: 4 }).map((n) => n > 0),
  restarts: fc.nat({ max: 7 }).map((n) => n === 0),
  asks: fc.boolean(),
  where: fc.constantFrom('input', 'input', 'instructions', 'metadata', 'user'),
  values: fc.uniqueArray(values, { minLength: 1, maxLength: 3 }),
});

/** What a later turn can continue. */
interface Made {
  readonly id: string;
  /** The first value of the first turn. */
  readonly note: string;
  /** The answer to a new text, which contains that value. */
  readonly itemId: string | undefined;
}

const native = createSimulatedProvider({ apiKey: 'sk-native', remember: Number.POSITIVE_INFINITY });
const translated = createSimulatedProvider({ responses: 'absent', remember: Number.POSITIVE_INFINITY });
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-history-'));
const headers = { 'x-gateway-user-path': '/hidden' };
let env: Record<string, string> = {};
let gateway: TestGateway;

const start = async () => {
  gateway = await startTestGateway({ dataDir, simulated: false, env });
};

beforeAll(async () => {
  env = {
    ...{ OPENAI_BASE_URL: await native.listen(), OPENAI_API_KEY: 'sk-native' },
    ...{ LLAMACPP_BASE_URL: await translated.listen(), RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
    ...withGuardrails,
  };
  await start();
  await modelsListed(gateway, 2);
  await saveGuardrail(gateway, { name: 'personal-data', type: 'pii' });
  await guard(gateway, '/hidden', [{ ref: 'personal-data' }]);
  const targets = [
    { provider: 'openai', model: 'simulated-small' },
    { provider: 'llamacpp', model: 'simulated-small' },
  ];
  await saved(gateway, { source: 'spare', targets, strategy: 'failover' });
});

afterAll(async () => {
  await gateway.close();
  await Promise.all([native.close(), translated.close()]);
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

/** The turns of one client. */
class Client {
  #made: Made | undefined;
  #conversation: { readonly id: string; note: string | undefined } | undefined;

  async send(turn: Turn): Promise<void> {
    if (turn.restarts) {
      await gateway.close();
      await start();
    }
    if (turn.model === 'spare') native.control.next({ status: 500 }, { path: '/v1/responses' });
    const { said, ...request } = await this.#request(turn);
    const answer = await gateway.fetch('/v1/responses', { json: request.json, headers });
    native.control.clear();
    const text = await answer.text();
    expect(answer.status, text).toBe(200);
    expect(text).not.toMatch(/<[A-Z_]+_\d+>/);
    const events = turn.stream ? dataOf(text) : [];
    const response: Answered = turn.stream ? events.at(-1).response : JSON.parse(text);
    expect(response.status).toBe('completed');
    expect(response.output[0].content[0].text).toBe(said);
    if (turn.stream) expect(events.map(({ delta = '' }) => delta).join('')).toBe(said);
    if (!turn.store) return;
    const stored = await json(await gateway.fetch(`/v1/responses/${response.id}`, { headers }));
    expect(stored).toEqual(response);
    const { note } = request;
    const isTask = said !== `Your note is ${note}.`;
    const isInConversation = request.json.conversation !== undefined;
    if (isInConversation && this.#conversation) this.#conversation.note = note;
    // The earlier turns of its conversation do not belong to the response.
    if (isInConversation && !isTask) return;
    const itemId = isTask ? response.output[0].id : this.#made?.note === note ? this.#made.itemId : undefined;
    this.#made = { id: response.id, note, itemId };
  }

  async #request({ kind, model, stream, store, asks, where, values }: Turn) {
    const [value = '', ...others] = values;
    const members = {
      ...{ model, stream, store },
      ...(where === 'instructions' && { instructions: `The customer is ${value}, of ${others.join(', ')}.` }),
      ...(where === 'metadata' && { metadata: { customer: value } }),
      ...(where === 'user' && { user: value }),
    };
    const made = this.#made;
    const continued = await this.#continued(kind);
    const known = continued.note;
    if (asks && known !== undefined) {
      return {
        json: { ...members, ...continued.with('What is my note?') },
        said: `Your note is ${known}.`,
        note: known,
      };
    }
    const note = known ?? value;
    const said = `My note is ${note}, with ${[...values, ...(made === undefined ? [] : [made.note])].join(', ')}; end`;
    return { json: { ...members, ...continued.with(`Reply with exactly: ${said}`) }, said, note };
  }

  async #continued(kind: Turn['kind']): Promise<Continued> {
    const made = this.#made;
    if (kind === 'conversation') {
      this.#conversation ??= {
        id: (await json(await gateway.fetch('/v1/conversations', { json: {}, headers }))).id,
        note: undefined,
      };
      const { id, note } = this.#conversation;
      return { note, with: (input) => ({ input, conversation: id }) };
    }
    if (kind === 'previous_response_id' && made !== undefined) {
      return { note: made.note, with: (input) => ({ input, previous_response_id: made.id }) };
    }
    if (kind === 'item_reference' && made?.itemId !== undefined) {
      const item = { type: 'item_reference', id: made.itemId };
      return { note: made.note, with: (content) => ({ input: [item, { role: 'user', content }] }) };
    }
    return { note: undefined, with: (input) => ({ input }) };
  }
}

interface Continued {
  readonly note: string | undefined;
  with(input: string): {
    readonly input: unknown;
    readonly conversation?: string;
    readonly previous_response_id?: string;
  };
}

it('with history, guardrails and restarts no provider receives an original value', async () => {
  let turnsOnNative = 0;
  let turnsOnTranslated = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(turns, { minLength: 4, maxLength: 9 }), async (sequence) => {
      const before = [native.requests.length, translated.requests.length] as const;
      const client = new Client();
      for (const turn of sequence) await client.send(turn);
      const sent = [native.requests.slice(before[0]), translated.requests.slice(before[1])] as const;
      turnsOnNative += sent[0].length;
      turnsOnTranslated += sent[1].length;
      const all = sent.flat().map(({ path, body }) => `${path} ${body}`);
      for (const value of sequence.flatMap((turn) => turn.values)) {
        expect(all.filter((one) => one.includes(value))).toEqual([]);
      }
    }),
    // Shrinking restarts the gateway many times: the reported seed reproduces the sequence.
    { numRuns: 20, endOnFailure: true },
  );
  expect(turnsOnNative).toBeGreaterThan(20);
  expect(turnsOnTranslated).toBeGreaterThan(20);
}, 60_000);
