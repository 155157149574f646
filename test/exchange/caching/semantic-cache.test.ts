/** The semantic cache: similar requests of one scope get the recorded answer, and no provider generates one. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../../infra/simulated-provider/server.ts';
import { withEmbedder } from '../../support/embedder.ts';
import { startTestGateway, type TestGateway } from '../../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../../support/guarded.ts';
import { newKey } from '../../support/managed-keys.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  modelsListed,
  user,
  withGateway,
} from '../../support/with-gateway.ts';

const embedder = withEmbedder();
const gateway = withGateway(
  async () => ({
    env: {
      ...{ ...(await embedder.env()), ...withGuardrails },
      ...{ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false', SEMANTIC_CACHE_EMBEDDER_TIMEOUT: '300ms' },
    },
  }),
  2,
);
afterEach(() => embedder.script(undefined));

const model = 'simulated-small';
let topics = 0;
/** A function to texts of a topic of its own. */
function topic(): (angle: number) => string {
  topics += 1;
  return (angle) => `topic=${topics} angle=${angle}`;
}
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  gateway.post(path, body, { headers });
const cacheOf = async (answer: Response | Promise<Response>) => {
  const given = await answer;
  expect(given.status, await given.clone().text()).toBe(200);
  await given.text();
  return given.headers.get('x-cache');
};
const chat = (text: string, extra: object = {}) => ({ model, messages: user(text), ...extra });
const chatted = (text: string, extra: object = {}, headers: Record<string, string> = {}) =>
  cacheOf(post('/v1/chat/completions', chat(text, extra), headers));

const bodies: readonly [path: string, body: (text: string) => object][] = [
  ['/v1/chat/completions', chat],
  ['/v1/responses', (input) => ({ model, input })],
  ['/v1/messages', (text) => ({ model, max_tokens: 100, messages: user(text) })],
];
const routes = bodies.flatMap(([path, body]) => [
  [path, body] as const,
  [`${path} as a stream`, (text: string) => ({ ...body(text), stream: true })] as const,
]);

describe('the semantic cache', () => {
  it.each(routes)('answers a similar request to %s with the recorded answer', async (what, body) => {
    const [path = ''] = what.split(' ');
    const about = topic();
    const before = gateway.simulated.requests.length;
    const first = await post(path, body(about(0)));
    expect(await cacheOf(first.clone())).toBe('MISS');
    const second = await post(path, body(about(10)));
    expect(await cacheOf(second.clone())).toBe('HIT (semantic)');
    expect(gateway.simulated.requests.length - before).toBe(1);
    const [one, other] = [exchangeOf(first), exchangeOf(second)];
    const hit = (await eventsOfExchange(gateway, other)).find(({ type }) => type === 'cache.hit');
    expect(hit?.data).toMatchObject({ exchangeId: one, cacheType: 'semantic' });
    expect(hit?.data.similarity).toBeCloseTo(Math.cos(Math.PI / 18), 4);
    expect(await cacheOf(post(path, body(about(40))))).toBe('MISS');
    expect(await cacheOf(post(path, body(about(0))))).toBe('HIT (exact)');
  });

  it('embeds as an exchange of its own, below the path of the caller', async () => {
    const about = topic();
    const key = await newKey(gateway, { user_path: '/embedding/team' });
    const answer = await key.fetch('/v1/chat/completions', { json: chat(about(0)) });
    const id = exchangeOf(answer);
    const userPath = '/embedding/team/cache/semantic';
    const [received] = (
      await eventsUntil(gateway, 'types=request.received', (event) => event.userPath === userPath)
    ).slice(-1);
    const events = await eventsOfExchange(gateway, (received?.stream ?? '').replace('exchange-', ''));
    expect(events.map(({ type }) => type)).toEqual(expect.arrayContaining(['request.received', 'usage.recorded']));
    expect(events[0]).toMatchObject({ userPath, causationId: id, actor: 'system' });
    expect(events.map(({ type }) => type).filter((type) => type.startsWith('cache.'))).toEqual([]);
  });

  it.each<[string, object]>([
    ['another system prompt', { messages: [{ role: 'system', content: 'be rude' }, ...user('TEXT')] }],
    ['an earlier message', { messages: [...user('a'), { role: 'assistant', content: 'b' }, ...user('TEXT')] }],
    ['another value', { temperature: 0.5 }],
    ['another member', { user: 'somebody' }],
    ['a stream', { stream: true }],
  ])('does not compare requests of which one has %s', async (_, extra) => {
    const about = topic();
    expect(await chatted(about(0))).toBe('MISS');
    const other = JSON.parse(JSON.stringify({ ...chat(about(1)), ...extra }).replace('TEXT', about(1)));
    expect(await cacheOf(post('/v1/chat/completions', other))).toBe('MISS');
    expect(await chatted(about(1))).toBe('HIT (semantic)');
  });

  it('does not share answers between user paths', async () => {
    const about = topic();
    const keys = await Promise.all(['/s/one', '/s/other'].map((user_path) => newKey(gateway, { user_path })));
    const [one, other] = keys.map(
      (key) => (text: string) => cacheOf(key.fetch('/v1/chat/completions', { json: chat(text) })),
    );
    expect(await one?.(about(0))).toBe('MISS');
    expect(await other?.(about(1))).toBe('MISS');
    expect(await one?.(about(1))).toBe('HIT (semantic)');
    const same = await newKey(gateway, { user_path: '/s/one' });
    expect(await cacheOf(same.fetch('/v1/chat/completions', { json: chat(about(2)) }))).toBe('HIT (semantic)');
  });

  it('honours the headers of a request', async () => {
    const about = topic();
    expect(await chatted(about(0), {}, { 'x-cache-type': 'exact' })).toBe('MISS');
    expect(await chatted(about(1))).toBe('MISS');
    const embedded = embedder.texts.length;
    expect(await chatted(about(2), {}, { 'x-cache-type': 'exact' })).toBe('MISS');
    expect(await chatted(about(3), {}, { 'cache-control': 'no-cache' })).toBe('MISS');
    expect(embedder.texts).toHaveLength(embedded);
    expect(await chatted(about(30), {}, { 'x-cache-semantic-threshold': '0.99' })).toBe('MISS');
    expect(await chatted(about(60), {}, { 'x-cache-semantic-threshold': '0.8' })).toBe('HIT (semantic)');
    expect(await chatted(about(1), {}, { 'x-cache-type': 'semantic' })).toBe('HIT (semantic)');
    const only = { 'cache-control': 'only-if-cached' };
    expect(await chatted(about(5), {}, only)).toBe('HIT (semantic)');
    const missing = await post('/v1/chat/completions', chat(topic()(0)), only);
    expect(await errorOf(missing, 504)).toMatchObject({ code: 'not_cached' });
  });

  it('embeds nothing for embeddings, results of tools, images and stored conversations', async () => {
    const before = embedder.texts.length;
    const text = topic()(0);
    expect(await cacheOf(post('/v1/embeddings', { model, input: text }))).toBe('MISS');
    const tools = [
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'r' },
    ];
    await chatted(text, { messages: [...user('a'), ...tools, ...user(text)] });
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } };
    await chatted(text, { messages: [{ role: 'user', content: [{ type: 'text', text }, image] }] });
    const first = await json(
      await post('/v1/responses', { model, input: text, store: true }, { 'x-cache-type': 'exact' }),
    );
    await cacheOf(post('/v1/responses', { model, input: text, previous_response_id: first.id }));
    expect(embedder.texts).toHaveLength(before);
  });

  it.each<[string, Parameters<typeof embedder.script>[0]]>([
    ['fails', (_, response) => response.writeHead(500).end('{}')],
    ['answers with something else', (_, response) => response.end('{"data":[]}')],
    ['does not answer', () => {}],
  ])('serves requests when the embedder %s', async (_, script) => {
    const about = topic();
    const failures = async () =>
      Number(
        /semantic_cache_failures_total\{operation="embedding"\} (\d+)/.exec(
          await (await gateway.fetch('/metrics')).text(),
        )?.[1] ?? 0,
      );
    const before = await failures();
    embedder.script(script);
    expect(await chatted(about(0))).toBe('MISS');
    expect(await chatted(about(0))).toBe('HIT (exact)');
    expect(await failures()).toBe(before + 1);
    embedder.script(undefined);
    expect(await chatted(about(1))).toBe('MISS');
    expect(await chatted(about(2))).toBe('HIT (semantic)');
  });

  it('calls the provider once for equal requests at the same time', async () => {
    const text = topic()(0);
    const before = gateway.simulated.requests.length;
    const outcomes = await Promise.all(Array.from({ length: 6 }, () => chatted(text)));
    expect(outcomes.filter((outcome) => outcome === 'MISS')).toHaveLength(1);
    expect(gateway.simulated.requests.length - before).toBe(1);
  });

  it('finds no answer that was purged', async () => {
    const about = topic();
    const key = await newKey(gateway, { user_path: '/purged' });
    const ask = (angle: number) => cacheOf(key.fetch('/v1/chat/completions', { json: chat(about(angle)) }));
    expect([await ask(0), await ask(1)]).toEqual(['MISS', 'HIT (semantic)']);
    const purge = await gateway.fetch('/admin/cache/purge', { json: { user_path: '/purged' } });
    expect(await json(purge)).toEqual({ purged: 1 });
    expect([await ask(2), await ask(3)]).toEqual(['MISS', 'HIT (semantic)']);
  });

  it('compares the texts that guardrails let pass, and none with placeholders', async () => {
    const rules = [{ name: 'semantic-words', type: 'string_replace', config: { rules: 'gibberish => ' } }];
    for (const rule of rules) await saveGuardrail(gateway, rule);
    await saveGuardrail(gateway, {
      name: 'semantic-pii',
      type: 'pii',
      config: { entities: ['EMAIL'], restore: true },
    });
    await guard(gateway, '/guarded', [
      { ref: 'semantic-words', phase: 'prompt', step: 1 },
      { ref: 'semantic-pii', phase: 'prompt', step: 2 },
    ]);
    const key = await newKey(gateway, { user_path: '/guarded' });
    const ask = (text: string) => cacheOf(key.fetch('/v1/chat/completions', { json: chat(text) }));
    const about = topic();
    expect(await ask(`gibberish ${about(0)}`)).toBe('MISS');
    expect(embedder.texts.at(-1)).not.toContain('gibberish');
    expect(await ask(about(5))).toBe('HIT (semantic)');
    const embedded = embedder.texts.length;
    expect(await ask(`${about(6)} of anna@example.com`)).toBe('MISS');
    expect(await ask(`${about(7)} of bert@example.com`)).toBe('MISS');
    expect(embedder.texts).toHaveLength(embedded);
  });
});

describe('after a restart', () => {
  it('similar requests find the recorded answer again', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-semantic-'));
    // The answers of another server are not used again.
    const provider = createSimulatedProvider();
    const env = { ...(await embedder.env()), LLAMACPP_BASE_URL: await provider.listen() };
    const ask = async ({ fetch }: TestGateway, text: string) => {
      const answer = await fetch('/v1/chat/completions', { json: chat(text) });
      await answer.text();
      return answer.headers.get('x-cache');
    };
    const about = topic();
    let running = await startTestGateway({ dataDir, env, simulated: false });
    try {
      await modelsListed(running, 2);
      expect(await ask(running, about(0))).toBe('MISS');
      await running.close();
      running = await startTestGateway({ dataDir, env, simulated: false });
      await modelsListed(running, 2);
      await expect.poll(() => ask(running, about(9))).toBe('HIT (semantic)');
    } finally {
      await running.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});
