/**
 * The first answer, its repetition by an idempotency key, and its copies from the response cache are equal byte by byte,
 * but for newly issued ids and timestamps: in every dialect, as JSON and as a stream, from providers with the dialect and
 * from others, and after a restart.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { newKey } from '../../support/managed-keys.ts';
import { countOf, someOf } from '../../support/seed.ts';
import { json, modelsListed, user, weather } from '../../support/with-gateway.ts';

const provider = createSimulatedProvider();
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-byte-equal-'));
let env: Record<string, string>;
let gateway: TestGateway;

const start = async () => {
  gateway = await startTestGateway({ dataDir, simulated: false, env });
  await modelsListed(gateway, 4);
};

beforeAll(async () => {
  const url = await provider.listen();
  env = {
    ...{ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk', ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'sk' },
    ...{ OLLAMA_BASE_URL: new URL(url).origin, LLAMACPP_BASE_URL: url },
    ...{ RESPONSE_CACHE_ENABLED: 'true', RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
  };
  await start();
}, 30_000);
afterAll(async () => {
  await gateway.close();
  await provider.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

const ISSUED = /"(id|response_id|item_id)":(\s*)"(chatcmpl-|resp_|msg_|rs_|fc_|embd-)[^"\\]*"/g;
const TIME = /"(created|created_at|completed_at)":(\s*)\d+/g;
/** Without ids and timestamps. Within strings, quotation marks are escaped, so texts stay as they are. */
const without = (text: string) => text.replaceAll(ISSUED, '"$1":$2""').replaceAll(TIME, '"$1":$2');
const idsIn = (text: string) => [...text.matchAll(ISSUED)].map(([id]) => id.replace(/^.*"(?=[^"]+"$)/s, ''));

let keys = 0;
async function send(path: string, body: object, headers: Record<string, string> = {}) {
  const answer = await gateway.fetch(path, { json: body, headers });
  const text = await answer.text();
  expect({ status: answer.status, text }).toMatchObject({ status: 200 });
  return { text, cache: answer.headers.get('x-cache'), replayed: answer.headers.get('idempotent-replayed') };
}

/** @returns the first answer */
async function expectEqualAnswers(path: string, body: object): Promise<string> {
  const once = { 'idempotency-key': `once-${++keys}` };
  const first = await send(path, body, once);
  expect(first).toMatchObject({ cache: 'MISS', replayed: null });
  expect(await send(path, body, once)).toEqual({ text: first.text, cache: null, replayed: 'true' });
  const hits = [await send(path, body), await send(path, body)];
  for (const { text, cache } of hits) {
    expect(cache).toBe('HIT (exact)');
    expect(without(text)).toBe(without(first.text));
  }
  const all = [first, ...hits].map(({ text }) => idsIn(text));
  const distinct = new Set(all.flat()).size;
  expect(distinct).toBe(all.reduce((sum, ids) => sum + new Set(ids).size, 0));
  for (const ids of all) expect(ids.map((id) => ids.indexOf(id))).toEqual(all[0]?.map((id) => all[0]?.indexOf(id)));
  return first.text;
}

const said = fc
  .string({
    unit: fc.constantFrom(...'abc "\\{}:,üé😀0123456789', '"id":"chatcmpl-1"', '"created":12'),
    minLength: 1,
    maxLength: 40,
  })
  .map((text) => `Reply with exactly: <${text}>`);

const models = ['openai', 'anthropic', 'ollama', 'llamacpp'].map((type) => `${type}/simulated-small`);
const routes = [
  ['/v1/chat/completions', (model: string, text: string) => ({ model, messages: user(text) })],
  ['/v1/responses', (model: string, text: string) => ({ model, input: text })],
  ['/v1/messages', (model: string, text: string) => ({ model, max_tokens: 500, messages: user(text) })],
] as const;
const every = models.flatMap((model) =>
  routes.flatMap(([path, body]) => [false, true].map((stream) => ({ model, path, body, stream }))),
);
const kindsOf = ({ model, path, stream }: (typeof every)[number]) => [model, `${path} ${stream}`];
const cases = someOf(every, kindsOf);
const ofTwoModels = every.filter(({ model }) => /^(openai|llamacpp)/.test(model));

describe.each(cases)('$path from $model, streamed: $stream', ({ model, path, body, stream }) => {
  it('is equal but for ids and timestamps, with any text', async () => {
    await fc.assert(
      fc.asyncProperty(said, async (text) => {
        // No other case of this test sends it.
        const fresh = `${text} ${++keys}`;
        const first = await expectEqualAnswers(path, { ...body(model, fresh), ...(stream ? { stream } : {}) });
        expect(first.length).toBeGreaterThan(0);
      }),
      { numRuns: countOf(2, 4) },
    );
  });
});

describe.each(['openai', 'llamacpp', 'ollama'])('embeddings from %s', (type) => {
  it('are equal but for ids and timestamps', async () => {
    await expectEqualAnswers('/v1/embeddings', { model: `${type}/simulated-small`, input: ['one', `two ${++keys}`] });
  });
});

describe('an answer with tool calls, where the workflow allows it', () => {
  const tools = {
    '/v1/chat/completions': { tools: [{ type: 'function', function: weather }], tool_choice: 'required' },
    '/v1/responses': { tools: [{ type: 'function', ...weather }], tool_choice: 'required' },
    '/v1/messages': {
      tools: [{ name: weather.name, input_schema: weather.parameters }],
      tool_choice: { type: 'any' },
    },
  };
  beforeAll(async () => {
    const features = { cache: true, audit: true, usage: true, guardrails: true };
    const cache = { scope: 'user_path', tool_calls: true };
    const payload = { name: 'with tools', workflow_payload: { features, cache } };
    expect((await gateway.fetch('/admin/workflows', { json: payload })).status).toBe(201);
  });

  it.each(cases)('$path from $model, streamed: $stream', async ({ model, path, body, stream }) => {
    const text = `What is the weather in Paris? ${++keys}`;
    const { tool_choice, ...declared } = tools[path];
    // Ollama calls tools as it likes.
    const asked = model.startsWith('ollama') ? declared : { ...declared, tool_choice };
    const first = await expectEqualAnswers(path, { ...body(model, text), ...asked, ...(stream ? { stream } : {}) });
    expect(first).toContain(weather.name);
  });
});

describe('after a restart', () => {
  it.each(someOf(ofTwoModels, kindsOf))(
    '$path from $model is equal, streamed: $stream',
    async ({ model, path, body, stream }) => {
      const request = { ...body(model, `Reply with exactly: kept ${++keys}`), ...(stream ? { stream } : {}) };
      const first = await send(path, request);
      await gateway.close();
      await start();
      const hit = await send(path, request);
      expect(hit.cache).toBe('HIT (exact)');
      expect(without(hit.text)).toBe(without(first.text));
      expect(idsIn(hit.text)).not.toEqual(idsIn(first.text));
    },
  );
});

describe('two tenants', () => {
  const features = { cache: true, audit: true, usage: true, guardrails: true };
  const ask = async (by: Pick<TestGateway, 'fetch'>, text: string, headers: Record<string, string> = {}) => {
    const answer = await by.fetch('/v1/chat/completions', {
      json: { model: models[0], messages: user(text) },
      headers,
    });
    expect(answer.status, await answer.clone().text()).toBe(200);
    await answer.text();
    return answer.headers.get('x-cache');
  };
  const setScope = async (path: string, scope: string | undefined) => {
    const payload = { features, ...(scope === undefined ? {} : { cache: { scope } }) };
    const body = { scope_user_path: path, name: path, workflow_payload: payload };
    expect((await json(await gateway.fetch('/admin/workflows', { json: body }))).active).toBe(true);
  };

  it.each([
    ['user_path', [undefined, 'MISS', 'HIT (exact)', 'MISS']],
    ['key', [undefined, 'MISS', 'MISS', 'MISS']],
    ['shared', [undefined, 'HIT (exact)', 'HIT (exact)', 'HIT (exact)']],
  ])('share answers as their workflow says: %s', async (scope, [, below, samePath, master]) => {
    const root = `/${scope}`;
    await setScope(root, scope);
    const [one, deeper, same] = [
      await newKey(gateway, { user_path: `${root}/a` }),
      await newKey(gateway, { user_path: `${root}/a/b` }),
      await newKey(gateway, { user_path: `${root}/a` }),
    ];
    const text = `Scope ${scope}`;
    expect(await ask(one, text)).toBe('MISS');
    expect(await ask(one, text)).toBe('HIT (exact)');
    expect(await ask(deeper, text)).toBe(below);
    expect(await ask(same, text)).toBe(samePath);
    expect(await ask(gateway, text, { 'x-gateway-user-path': `${root}/a` })).toBe(master);
  });

  it('share nothing without a setting: two paths, two keys without a path, a key and the master key', async () => {
    const text = 'Nobody shares this';
    const callers = [
      await newKey(gateway, { user_path: '/red' }),
      await newKey(gateway, { user_path: '/blue' }),
      await newKey(gateway),
      await newKey(gateway),
      gateway,
    ];
    for (const caller of callers) expect(await ask(caller, text)).toBe('MISS');
    for (const caller of callers) expect(await ask(caller, text)).toBe('HIT (exact)');
  });
});
