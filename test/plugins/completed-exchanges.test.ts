import { describe, expect, it } from 'vitest';
import type { EndedExchange } from '../../src/plugins/api/plugin.ts';
import { CompletedExchanges, MAX_WAITING } from '../../src/plugins/completed-exchanges.ts';
import { loadPlugins } from '../../src/plugins/load-plugins.ts';
import { pluginFolder, source } from './plugin-files.ts';

const ended = (requestId: string): EndedExchange => ({
  ...{ exchangeId: '', requestId, userPath: '/', endpoint: '/v1/chat/completions', labels: [] },
  ...{ status: 200, stream: false, durationMs: 1 },
});

async function loaded(hooks: string) {
  const { folder, remove } = pluginFolder({ 'p.ts': source(hooks) });
  const entry = { place: { path: 'p.ts' }, config: {}, required: true, memoryBytes: 256 * 1024 * 1024 };
  const plugins = await loadPlugins({
    entries: [{ ...entry, timeoutMs: 5000, failMode: 'closed', setting: 'test' }],
    ...{ from: folder, log: undefined, reserved: new Set<string>(), maxTimeoutMs: 60_000 },
    output() {},
    problem() {},
  });
  const [plugin] = plugins.loaded;
  if (plugin === undefined) throw new Error('the plugin was not loaded');
  return {
    plugin,
    async close() {
      await plugins.stop();
      remove();
    },
  };
}

describe('exchanges that wait for the hook complete', () => {
  it('are all handed over when the gateway stops', async () => {
    const { plugin, close } = await loaded('complete() {}');
    const exchanges = new CompletedExchanges(plugin);
    for (let at = 0; at < 50; at++) exchanges.add(ended(String(at)));
    await exchanges.drain();
    expect(plugin.host.counters).toMatchObject({ calls: 50, failures: 0 });
    expect(exchanges.dropped).toBe(0);
    await close();
  });

  it('are counted when there are too many', async () => {
    const { plugin, close } = await loaded('complete: () => new Promise(() => {})');
    const exchanges = new CompletedExchanges(plugin);
    const running = 4;
    for (let at = 0; at < MAX_WAITING + running + 7; at++) exchanges.add(ended(String(at)));
    expect(exchanges.dropped).toBe(7);
    await exchanges.drain();
    expect(exchanges.dropped).toBe(MAX_WAITING + 7);
    await close();
  });
});
