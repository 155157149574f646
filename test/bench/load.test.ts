import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Load, runLoad } from '../../bench/load.ts';
import { memoryOf, processorMs } from '../../bench/process-stat.ts';
import { type Server, startBarePassthrough, startProvider } from '../../bench/servers.ts';
import { loadFor, MODELS, WORDS, WORKS } from '../../bench/work.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';

const provider = createSimulatedProvider();
let url = '';
beforeAll(async () => {
  url = await provider.listen();
});
afterAll(() => provider.close());

const ask = (more: object = {}) => JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more });
const load = (more: Partial<Load>): Promise<import('../../bench/load.ts').LoadResult> =>
  runLoad({ url: `${url}/chat/completions`, body: ask(), connections: 2, seconds: 0.1, expect: 'json', ...more });

describe('the load generator', () => {
  it('counts whole answers and their latency', async () => {
    const result = await load({});
    expect(result.failures).toEqual({});
    expect(result.answers).toBeGreaterThan(2);
    expect(result.total).toBeGreaterThanOrEqual(result.answers);
    expect(result.perSecond).toBeCloseTo(result.answers / 0.1);
    expect(result.latencyMs.p50).toBeGreaterThan(0);
    expect(result.latencyMs.p99).toBeGreaterThanOrEqual(result.latencyMs.p50);
    expect(result.firstDataMs).toBeNull();
  });

  it('times the first data of a stream apart from its end', async () => {
    const result = await load({ body: ask({ stream: true, simulate: { chunks: 4, paceMs: 5 } }), expect: 'chat-sse' });
    expect(result.failures).toEqual({});
    expect(result.latencyMs.p50 - (result.firstDataMs?.p50 ?? 0)).toBeGreaterThan(15);
  });

  it('does not count the lead-in', async () => {
    const slow = { body: ask({ simulate: { headerDelayMs: 60 } }), connections: 1 };
    const result = await load({ ...slow, warmUpSeconds: 0.1, seconds: 0.05 });
    expect(result.answers).toBe(1);
    expect(result.total).toBeGreaterThan(1);
  });

  it.each([
    ['an error status', { status: 500 }, 'json', 'status 500'],
    ['an empty body', { text: '', garbage: true }, 'json', 'a JSON answer that is not whole'],
    ['a connection that breaks', { cutAfterChunks: 2 }, 'chat-sse', 'the connection was closed early'],
    ['a stream without an end', { endWithoutDone: true }, 'chat-sse', 'a stream without data: [DONE]'],
  ] as const)('reports %s as a failure and counts no answer', async (_, simulate, expected, failure) => {
    const stream = expected === 'chat-sse';
    const result = await load({ body: ask({ stream, simulate }), expect: expected, seconds: 0.05 });
    expect(result.answers).toBe(0);
    expect(Object.keys(result.failures)).toContain(failure);
  });
});

describe('the servers of the benchmark', () => {
  let native: Server;
  let bare: Server;
  beforeAll(async () => {
    native = await startProvider({ responses: 'native', words: WORDS, models: MODELS });
    bare = await startBarePassthrough(native);
  });
  afterAll(() => Promise.all([bare.stop(), native.stop()]));

  it.each(WORKS.filter((work) => work.dialect !== 'translated'))(
    'do $name, the bare pass-through like the provider',
    async (work) => {
      for (const [subject, server] of [
        ['provider', native],
        ['bare', bare],
      ] as const) {
        const result = await runLoad({
          ...loadFor(work, subject, { server, key: 'bench' }),
          connections: 1,
          seconds: 0.3,
        });
        expect(result.failures, subject).toEqual({});
        expect(result.answers, subject).toBeGreaterThan(0);
      }
    },
  );

  it('relay status, headers and bytes unchanged', async () => {
    const body = ask({ simulate: { status: 429, retryAfter: 3 } });
    const post = (server: Server) =>
      fetch(`${server.origin}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      });
    const [direct, relayed] = [await post(native), await post(bare)];
    expect(relayed.status).toBe(429);
    expect(relayed.headers.get('retry-after')).toBe('3');
    expect(await relayed.text()).toBe(await direct.text());
  });

  it('stream 33 events of chat', async () => {
    const work = WORKS.find(({ name }) => name === 'chat-sse');
    if (work === undefined) throw new Error('chat-sse is gone');
    const { url: where, body, headers } = loadFor(work, 'bare', { server: bare, key: 'bench' });
    const text = await (
      await fetch(where, { method: 'POST', body, headers: { ...headers, 'content-type': 'application/json' } })
    ).text();
    expect(text.match(/^data: \{/gm)).toHaveLength(33);
  });

  it('can be weighed while they run', () => {
    expect(memoryOf(native.pid).residentMb).toBeGreaterThan(10);
    expect(memoryOf(native.pid).peakMb).toBeGreaterThanOrEqual(memoryOf(native.pid).residentMb);
    expect(processorMs(native.pid)).toBeGreaterThan(0);
    expect(native.end()).toBeUndefined();
  });
});
