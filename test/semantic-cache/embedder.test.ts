import { describe, expect, it } from 'vitest';
import { type EmbeddingCall, EmbeddingCallFailed } from '../../src/commands/auxiliary-calls/auxiliary-calls.ts';
import { Embedder } from '../../src/commands/semantic-cache/semantic-cache.ts';

function embedderThat(embed: (call: EmbeddingCall) => Promise<Float32Array>, timeoutMs = 5000) {
  const failures: string[] = [];
  const clock = { now: 0 };
  const embedder = new Embedder({
    embed,
    ...{ model: 'm', provider: undefined, timeoutMs },
    failed: (error) => failures.push(String(error)),
    now: () => clock.now,
  });
  return { embedder, failures, clock };
}

const text = (change: object = {}) => ({
  ...{ text: 'hello', requestId: 'r', exchangeId: 'e', userPath: '/team', signal: new AbortController().signal },
  ...change,
});

describe('Embedder', () => {
  it.each([
    ['/team', '/team/cache/semantic'],
    ['/', '/cache/semantic'],
    [undefined, '/cache/semantic'],
  ])('embeds for a caller at %s at the path %s, and returns a vector of length 1', async (userPath, path) => {
    const paths: string[] = [];
    const { embedder } = embedderThat(async (call) => {
      paths.push(call.userPath);
      return Float32Array.of(3, 4);
    });
    const vector = await embedder.embed(text({ userPath }));
    expect([...(vector ?? [])].map((value) => value.toFixed(3))).toEqual(['0.600', '0.800']);
    expect(paths).toEqual([path]);
  });

  it('embeds a recent text of the same user path only once', async () => {
    const calls: string[] = [];
    const { embedder } = embedderThat(async ({ userPath, text }) => {
      calls.push(`${userPath} ${text}`);
      return Float32Array.of(1);
    });
    await embedder.embed(text());
    expect(await embedder.embed(text())).toEqual(Float32Array.of(1));
    await embedder.embed(text({ userPath: '/other' }));
    await embedder.embed(text({ text: 'bye' }));
    expect(calls).toEqual([
      ...['/team/cache/semantic hello', '/other/cache/semantic hello', '/team/cache/semantic bye'],
    ]);
  });

  it('has no vector for an embedding without a direction', async () => {
    const { embedder } = embedderThat(async () => Float32Array.of(0, 0));
    expect(await embedder.embed(text())).toBeUndefined();
  });

  it('gives up at its time limit, and cancels the call', async () => {
    let signal: AbortSignal | undefined;
    const { embedder, failures } = embedderThat((call) => {
      signal = call.signal;
      return new Promise((_, reject) => call.signal.addEventListener('abort', () => reject(new Error('cancelled'))));
    }, 5);
    expect(await embedder.embed(text())).toBeUndefined();
    expect(failures).toEqual(['Error: no embedding within 5 ms']);
    expect(signal?.aborted).toBe(true);
  });

  it('calls nothing for 30 seconds after five failures in a row', async () => {
    let calls = 0;
    const { embedder, failures, clock } = embedderThat(async () => {
      calls += 1;
      if (calls <= 5) throw new EmbeddingCallFailed('failed', 'down');
      return Float32Array.of(1);
    });
    for (let count = 0; count < 8; count++) expect(await embedder.embed(text())).toBeUndefined();
    expect([calls, failures.length]).toEqual([5, 5]);
    clock.now = 30_000;
    expect(await embedder.embed(text())).toEqual(Float32Array.of(1));
  });

  it.each(['limits of one caller', 'clients that leave'])('does not stop embedding because of %s', async (what) => {
    let calls = 0;
    const { embedder } = embedderThat(async () => {
      calls += 1;
      throw new EmbeddingCallFailed(what.startsWith('limits') ? 'refused' : 'cancelled', 'no');
    });
    const signal = what.startsWith('limits') ? new AbortController().signal : AbortSignal.abort('client_gone');
    for (let count = 0; count < 20; count++) expect(await embedder.embed(text({ signal }))).toBeUndefined();
    expect(calls).toBe(20);
  });

  it('distinguishes the vectors of different models', () => {
    const { embedder } = embedderThat(async () => Float32Array.of(1));
    expect(embedder.space).toBe('["","m"]');
  });
});
