/**
 * What a request costs over HTTP grows like its size, at every model route and in every dimension of its body: eight
 * times as much costs at most 2.3³ times the processor time, beside what the smallest request costs. The caller's objects
 * are restricted and a budget counts its requests, so that every check of a body runs. The least of several rounds is
 * compared. `npm run test:long -- attacks` tests every dimension at every route and provider; other runs test each route and
 * each dimension.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { isLong, someOf } from '../support/seed.ts';
import { user, withGateway } from '../support/with-gateway.ts';
import { newRandom } from './random.ts';

const FACTOR = 2.3;
const DOUBLINGS = 3;
const ROUNDS = 30;
/** Requests that cost less processor time, in milliseconds, are not compared: it varies from one to the next by as much. */
const FLOOR_MS = 20;
/** The processor time of the process includes what its collector does: a smaller difference says nothing. */
const RESOLUTION_MS = 1.5;

let scripted: ScriptedProvider;
const keys = new Map<string, ManagedKey>();
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  const { url } = scripted;
  return {
    simulated: false,
    env: {
      ...withGuardrails,
      ...{ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-any', ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'sk-any' },
      ...{ DEEPSEEK_BASE_URL: url, DEEPSEEK_API_KEY: 'sk-any', OLLAMA_BASE_URL: url },
      ...{ CONFIGURED_PROVIDER_MODELS_MODE: 'merge', OPENAI_MODELS: 'm', ANTHROPIC_MODELS: 'm' },
      ...{ DEEPSEEK_MODELS: 'm', OLLAMA_MODELS: 'm', RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
      PASSTHROUGH_STATELESS_ROUTES: 'POST /v1/moderations',
    },
  };
}, 2);
afterAll(() => scripted.close());

const message = { role: 'assistant', content: 'Hello.' };
const answers: readonly (readonly [RegExp, object])[] = [
  [/chat\/completions/, { id: 'c', choices: [{ index: 0, message, finish_reason: 'stop' }] }],
  [/\/completions/, { id: 'c', choices: [{ index: 0, text: 'Hello.', finish_reason: 'stop' }] }],
  [/input_tokens|count_tokens/, { input_tokens: 5 }],
  [/compact/, { id: 'resp_1', output: [] }],
  [/responses/, { id: 'resp_1', object: 'response', status: 'completed', output: [] }],
  [/batches|files/, { id: 'batch_1', object: 'batch', status: 'completed' }],
  [/messages/, { id: 'msg_1', type: 'message', content: [], stop_reason: 'end_turn' }],
  [/images/, { data: [{ b64_json: 'AAAA' }] }],
  [/api\/chat/, { message, done: true, done_reason: 'stop' }],
  [/moderations/, { results: [] }],
  [/speech/, { audio: 'AAAA' }],
];

beforeAll(async () => {
  scripted.script(({ path, body }, response) => {
    const vectors = () => (JSON.parse(body.toString()).input as unknown[]).map(() => ({ embedding: [1] }));
    const answer = /embeddings/.test(path) ? { data: vectors() } : answers.find(([of]) => of.test(path))?.[1];
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer ?? {}));
  });
  const pricing = { input_per_mtok: 1, output_per_mtok: 1 };
  for (const selector of ['openai/m', 'anthropic/m', 'deepseek/m', 'ollama/m']) {
    const set = await gateway.post('/admin/model-pricing-overrides', { selector, pricing }, { method: 'PUT' });
    expect(set.status, await set.text()).toBe(200);
  }
  for (const path of ['/plain', '/guarded']) {
    keys.set(path, await newKey(gateway, { user_path: path }));
    const budget = `/admin/budgets/${encodeURIComponent(path)}/daily`;
    expect((await gateway.post(budget, { amount: 1_000_000 }, { method: 'PUT' })).status).toBe(200);
  }
  await saveGuardrail(gateway, { name: 'words', type: 'string_replace', config: { rules: 'secret => word' } });
  await saveGuardrail(gateway, { name: 'personal', type: 'pii', config: {} });
  await guard(gateway, '/guarded', [{ ref: 'words' }, { ref: 'personal', step: 1 }]);
});

const times = <Value>(size: number, make: (at: number) => Value) => Array.from({ length: size }, (_, at) => make(at));
type Grown = (size: number) => object;
/** Members by the name of the dimension, at a size. */
type Dimensions = Readonly<Record<string, Grown>>;

const turns = (size: number) => times(size, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' }));
const part = { type: 'text', text: 'a b' };
const call = (at: number) => ({ id: `c${at}`, type: 'function', function: { name: 'f', arguments: '{"a":1}' } });
const result = (at: number) => ({ role: 'tool', tool_call_id: `c${at}`, content: 'x' });
const schema = { type: 'object', properties: { a: { type: 'string' } } };
const text = (size: number) => 'a word, \\"quoted\\"\n'.repeat(5 * size);

const chatDimensions: Dimensions = {
  turns: (n) => ({ messages: turns(n) }),
  parts: (n) => ({ messages: [{ role: 'user', content: times(n, () => part) }] }),
  text: (n) => ({ messages: user(text(n)) }),
  'system messages': (n) => ({ messages: [...times(n, () => ({ role: 'system', content: 'a' })), ...user('a')] }),
  'calls and results': (n) => ({
    messages: [...user('a'), { role: 'assistant', content: null, tool_calls: times(n, call) }, ...times(n, result)],
  }),
  tools: (n) => ({
    messages: user('a'),
    tools: times(n, (at) => ({ type: 'function', function: { name: `f${at}`, parameters: schema } })),
  }),
};
const messagesDimensions: Dimensions = {
  turns: (n) => ({ messages: turns(n) }),
  parts: (n) => ({ messages: [{ role: 'user', content: times(n, () => part) }] }),
  text: (n) => ({ messages: user(text(n)) }),
  'parts of the system prompt': (n) => ({ messages: user('a'), system: times(n, () => part) }),
  'calls and results': (n) => ({
    messages: [
      ...user('a'),
      {
        role: 'assistant',
        content: times(n, (at) => ({ type: 'tool_use', id: `c${at}`, name: 'f', input: { a: 1 } })),
      },
      { role: 'user', content: times(n, (at) => ({ type: 'tool_result', tool_use_id: `c${at}`, content: 'x' })) },
    ],
  }),
  tools: (n) => ({ messages: user('a'), tools: times(n, (at) => ({ name: `f${at}`, input_schema: schema })) }),
};
const itemCall = (at: number) => ({ type: 'function_call', call_id: `c${at}`, name: 'f', arguments: '{}' });
const itemOutput = (at: number) => ({ type: 'function_call_output', call_id: `c${at}`, output: 'x' });
const responsesDimensions: Dimensions = {
  items: (n) => ({ input: turns(n) }),
  parts: (n) => ({ input: [{ role: 'user', content: times(n, () => ({ type: 'input_text', text: 'a b' })) }] }),
  text: (n) => ({ input: text(n) }),
  'calls and outputs': (n) => ({
    input: [...user('a'), ...times(Math.ceil(n / 2), itemCall), ...times(Math.ceil(n / 2), itemOutput)],
  }),
  tools: (n) => ({ input: 'a', tools: times(n, (at) => ({ type: 'function', name: `f${at}`, parameters: schema })) }),
  'references to items': (n) => ({ input: times(n, (at) => ({ type: 'item_reference', id: `msg_${at}` })) }),
  'references to files': (n) => ({
    input: [{ role: 'user', content: times(n, (at) => ({ type: 'input_file', file_id: `file-${at}` })) }],
  }),
};
const lists: Dimensions = {
  texts: (n) => ({ input: times(n, (at) => `text ${at}`) }),
  'equal texts': (n) => ({ input: times(n, () => 'text') }),
};
const inBatch = (name: 'body' | 'params', model: string): Dimensions => ({
  requests: (n) => ({
    requests: times(n, (at) => ({
      custom_id: `r${at}`,
      ...(name === 'body' ? { url: '/v1/chat/completions' } : {}),
      [name]: { model, max_tokens: 1, messages: user('a') },
    })),
  }),
});

/** Of any JSON, in a member that no route knows. */
const anyJson: Dimensions = {
  members: (n) => ({ x: Object.fromEntries(times(n, (at) => [`member ${at}`, at])) }),
  'names in capitals': (n) => ({ x: Object.fromEntries(times(n, (at) => [`Member ${at}`, at])) }),
  numbers: (n) => ({ x: times(10 * n, (at) => at) }),
  'long numbers': (n) => ({ x: times(n, () => '#') }),
  lists: (n) => ({ x: times(n, () => [1]) }),
  'deep lists': (n) => ({ x: times(Math.ceil(n / 20), () => JSON.parse('['.repeat(100) + ']'.repeat(100))) }),
  'escaped text': (n) => ({ x: '\\"\u0001'.repeat(10 * n) }),
  'wide text': (n) => ({ x: 'ſK😀'.repeat(10 * n) }),
};

interface Route {
  readonly path: string;
  readonly model?: string;
  readonly base?: object;
  readonly dimensions: Dimensions;
  /** Elements of the smaller body, where the bounds of the route are narrow. */
  readonly size?: number;
  readonly as?: '/guarded';
}
const prompt = { prompt: 'a' };
const count = '/v1/messages/count_tokens';
const routes: readonly Route[] = [
  ...['openai/m', 'anthropic/m', 'ollama/m'].map((model) => ({
    ...{ path: '/v1/chat/completions', model, base: { max_tokens: 9 }, dimensions: chatDimensions },
  })),
  ...['anthropic/m', 'deepseek/m'].map((model) => ({
    ...{ path: '/v1/messages', model, base: { max_tokens: 9 }, dimensions: messagesDimensions },
  })),
  ...['openai/m', 'deepseek/m', 'anthropic/m'].map((model) => ({
    ...{ path: '/v1/responses', model, dimensions: responsesDimensions },
  })),
  { path: '/v1/chat/completions', model: 'openai/m', dimensions: chatDimensions, as: '/guarded', size: 500 },
  {
    path: '/v1/messages',
    model: 'deepseek/m',
    base: { max_tokens: 9 },
    dimensions: messagesDimensions,
    as: '/guarded',
    size: 500,
  },
  { path: '/v1/responses', model: 'openai/m', dimensions: responsesDimensions, as: '/guarded', size: 500 },
  ...['anthropic/m', 'deepseek/m'].map((model) => ({ path: count, model, dimensions: messagesDimensions })),
  { path: '/v1/responses/input_tokens', model: 'openai/m', dimensions: responsesDimensions },
  { path: '/v1/responses/compact', model: 'openai/m', dimensions: { items: (n) => ({ input: turns(n) }) } },
  { path: '/v1/completions', model: 'openai/m', dimensions: { prompts: (n) => ({ prompt: times(n, () => 'a') }) } },
  { path: '/v1/embeddings', model: 'openai/m', dimensions: lists },
  { path: '/v1/images/generations', model: 'openai/m', dimensions: { text: (n) => ({ prompt: text(n) }) } },
  {
    path: '/v1/images/edits',
    model: 'openai/m',
    base: prompt,
    dimensions: { images: (n) => ({ images: times(n, (at) => ({ file_id: `file-${at}` })) }) },
  },
  {
    path: '/v1/audio/speech',
    model: 'openai/m',
    base: { voice: 'v' },
    dimensions: { text: (n) => ({ input: text(n) }) },
  },
  {
    path: '/v1/conversations',
    dimensions: { items: (n) => ({ items: turns(n) }), text: (n) => ({ items: user(text(n)) }) },
  },
  { path: '/v1/conversations/{id}/items', dimensions: { text: (n) => ({ items: user(text(n)) }) } },
  { path: '/v1/batches', dimensions: inBatch('body', 'openai/m') },
  { path: '/v1/messages/batches', dimensions: inBatch('params', 'anthropic/m') },
  { path: '/p/openai/v1/chat/completions', model: 'm', base: { max_tokens: 9 }, dimensions: chatDimensions },
  { path: '/p/openai/v1/moderations', model: 'm', dimensions: lists },
];

const random = newRandom();
const every = routes.flatMap((route) => {
  const own = Object.entries(route.dimensions);
  const [, first] = own[0] ?? [];
  const others = Object.entries(anyJson).map(([name, grown]): [string, Grown] => [
    name,
    (n) => ({ ...first?.(1), ...grown(n) }),
  ]);
  return [...own, ...others].map(([dimension, grown]) => ({
    ...{ route, ...route, dimension, grown },
    caller: route.as ?? '/plain',
  }));
});
const cases = someOf(every, ({ route, dimension }) => [route, dimension]);

describe.each(cases)('POST $path $model for $caller', ({ path, model, base, dimension, grown, size = 900, caller }) => {
  it(`costs in proportion to its size: ${dimension}`, { timeout: 120_000 }, async () => {
    const bodyOf = (n: number) =>
      Buffer.from(JSON.stringify({ model, ...base, ...grown(n) }).replaceAll('"#"', '12345678901234567890'));
    const smaller = size + random.int(size / 10);
    const [tiny, small, large] = [bodyOf(1), bodyOf(smaller), bodyOf(2 ** DOUBLINGS * smaller)];
    const key = keys.get(caller);
    const statuses = new Set<number | undefined>();
    const cost = async (body: Buffer) => {
      // What earlier requests added to a conversation is read with it.
      const url = path.includes('{id}') ? path.replace('{id}', await newConversation(key)) : path;
      const before = process.cpuUsage();
      const answer = await key?.fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      const got = await answer?.text();
      const { user: own, system } = process.cpuUsage(before);
      expect(answer?.status, got).toBeLessThan(500);
      if (body !== tiny) statuses.add(answer?.status);
      return (own + system) / 1000;
    };
    const least = { tiny: Infinity, small: Infinity, large: Infinity };
    const isGrown = () =>
      least.large > FLOOR_MS &&
      least.large - least.tiny > FACTOR ** DOUBLINGS * Math.max(RESOLUTION_MS, least.small - least.tiny);
    for (let round = 0; round < ROUNDS && (round === 0 || isGrown()); round++) {
      for (let one = 0; one < 2; one++) {
        least.tiny = Math.min(least.tiny, await cost(tiny));
        least.small = Math.min(least.small, await cost(small));
      }
      least.large = Math.min(least.large, await cost(large));
    }
    if (isLong) {
      console.log(
        `${least.tiny.toFixed(1)} → ${least.small.toFixed(1)} → ${least.large.toFixed(1)} ms, ${small.length} → ${large.length} bytes: ${[...statuses]} ${path} ${dimension}`,
      );
    }
    expect(statuses.size, `one is refused: ${[...statuses]}`).toBe(1);
    expect(isGrown(), `seed ${random.seed}: ${JSON.stringify(least)} ms`).toBe(false);
  });
});

async function newConversation(key: ManagedKey | undefined): Promise<string> {
  const made = (await (await key?.fetch('/v1/conversations', { json: {} }))?.json()) as { id: string };
  return made.id;
}
