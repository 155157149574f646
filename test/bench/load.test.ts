import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Load, type LoadResult, runLoad } from '../../bench/load/load.ts';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';

const provider = createSimulatedProvider();
let url = '';
beforeAll(async () => {
  url = await provider.listen();
});
afterAll(() => provider.close());

const ask = (more: object = {}) => JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...more });
const json = { end: '}' };
const sse = { end: 'data: [DONE]' };
const load = (more: Partial<Load>): Promise<LoadResult> =>
  runLoad({ url: `${url}/chat/completions`, body: ask(), connections: 2, seconds: 0.1, expect: json, ...more });

describe('the load generator', () => {
  it('counts whole answers and their latency', async () => {
    const result = await load({ seconds: 0.5 });
    expect(result.failures).toEqual({});
    expect(result.answers).toBeGreaterThan(2);
    expect(result.total).toBeGreaterThanOrEqual(result.answers);
    expect(result.perSecond).toBeCloseTo(result.answers / 0.5);
    expect(result.latencyMs.p50).toBeGreaterThan(0);
    expect(result.latencyMs.p99).toBeGreaterThanOrEqual(result.latencyMs.p50);
    expect(result.firstDataMs).toBeNull();
  });

  it('times the first data of a stream apart from its end', async () => {
    const body = ask({ stream: true, simulate: { chunks: 4, paceMs: 5 } });
    const result = await load({ body, stream: true, expect: sse });
    expect(result.failures).toEqual({});
    expect(result.latencyMs.p50 - (result.firstDataMs?.p50 ?? 0)).toBeGreaterThan(15);
  });

  it('does not count the lead-in', async () => {
    const slow = { body: ask({ simulate: { headerDelayMs: 60 } }), connections: 1 };
    const result = await load({ ...slow, warmUpSeconds: 0.4, seconds: 0.3 });
    expect(result.answers).toBeLessThanOrEqual(5);
    expect(result.total).toBeGreaterThan(result.answers);
  });

  it('reports a connection that breaks after the counting has ended', async () => {
    const simulate = { chunks: 9, paceMs: 60, cutAfterChunks: 4 };
    const broken = { body: ask({ stream: true, simulate }), stream: true, expect: sse, connections: 1 };
    expect((await load({ ...broken, seconds: 0.01 })).failures).toEqual({ 'the connection was closed early': 1 });
  });

  it.each([
    ['an error status', { status: 500 }, json, 'status 500'],
    ['an empty body', { text: '', garbage: true }, json, 'a body that does not end in }'],
    ['a connection that breaks', { cutAfterChunks: 2 }, sse, 'the connection was closed early'],
    ['a stream without an end', { endWithoutDone: true }, sse, 'a body that does not end in data: [DONE]'],
    ['another body', {}, { body: '{}' }, 'a body that differs from the expected one'],
  ] as const)('reports %s as a failure and counts no answer', async (_, simulate, expected, failure) => {
    const stream = expected === sse;
    const result = await load({ body: ask({ stream, simulate }), stream, expect: expected, seconds: 0.05 });
    expect(result.answers).toBe(0);
    expect(Object.keys(result.failures)).toContain(failure);
  });
});
