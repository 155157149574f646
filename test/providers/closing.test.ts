import { describe, expect, test } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { createProvider } from '../../src/providers/create-provider.ts';
import type { ProviderFailure } from '../../src/providers/provider.ts';
import { withoutProxy } from '../../src/providers/proxies.ts';

async function started() {
  const upstream = createSimulatedProvider({ models: ['m'] });
  const baseUrl = await upstream.listen();
  const common = { name: 'p', type: 'vllm', apiKeys: [], models: [], options: {} } as const;
  const provider = createProvider({
    proxyOf: withoutProxy,
    ...common,
    baseUrl,
    modelsMode: 'fallback',
    source: 'stored',
    localAddresses: true,
  });
  const ask = () => {
    const body = Buffer.from(
      JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello!' }], stream: true }),
    );
    const signal = AbortSignal.timeout(10_000);
    return provider.send({ dialect: 'chat', body, stream: true, requestId: 'r', signal });
  };
  return { upstream, provider, ask };
}

describe('a provider that is closed', () => {
  test('when idle lets running calls end, and refuses new ones', async () => {
    const { upstream, provider, ask } = await started();
    upstream.control.next({ holdAfterChunks: 1, text: 'one two three' }, { path: '/v1/chat/completions' });
    const reply = await ask();
    let isClosed = false;
    const closed = provider.close('idle').then(() => {
      isClosed = true;
    });
    const refused = await ask().catch((error: ProviderFailure) => error);
    expect(refused).toMatchObject({ kind: 'unreachable' });
    expect(isClosed).toBe(false);
    upstream.control.release();
    let text = '';
    await reply.body.pieces((piece) => {
      text += piece.toString();
    });
    expect(text).toContain('[DONE]');
    await closed;
    await upstream.close();
  });

  test('now breaks off running calls, also after it was to be closed when idle', async () => {
    const { upstream, provider, ask } = await started();
    upstream.control.next({ holdAfterChunks: 1 }, { path: '/v1/chat/completions' });
    const reply = await ask();
    const idle = provider.close('idle');
    await provider.close();
    await expect(reply.body.pieces(() => {})).rejects.toMatchObject({ kind: 'broken' });
    await idle;
    await provider.close('idle');
    await upstream.close();
  });
});
