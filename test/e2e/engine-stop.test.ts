/** The stop of a gateway whose log is on an engine (EventStoreDB, stand-in) that is gone, or whose replica has no room. */
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { type RunningStandIn, startStandIn } from '../support/start-eventstore.ts';
import { ask, killAll, type ServedGateway, serve, temporaryFolder } from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';
import { ifPossible, limitedFiles } from './scarce-disk.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider();
const upstream = await provider.listen();
const messages = [{ role: 'user', content: 'Hello there' }];
const disk = ifPossible(limitedFiles, join(folder.path, 'disk'));

afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

describe('SIGTERM while appends fail', () => {
  let engine: RunningStandIn;
  let gateway: ServedGateway;
  let exchange: string;
  let env: Record<string, string>;

  const chat = () =>
    ask(gateway.url, '/v1/chat/completions', { json: { model: 'llamacpp/simulated-small', messages } });
  const refused = () => expect.poll(async () => (await chat()).status, { timeout: 30_000 }).toBe(503);

  beforeEach(async () => {
    engine = await startStandIn();
    env = { LLAMACPP_BASE_URL: upstream, LOG_LEVEL: 'error', LOG_URL: engine.url('log') };
  });
  afterEach(async () => {
    killAll();
    await engine.stop();
  });

  async function startWith(dataDir: string): Promise<void> {
    gateway = await serve({ dataDir, env });
    const response = await chat();
    expect(response.status).toBe(200);
    exchange = response.headers.get('x-exchange-id') ?? '';
    await response.text();
  }

  async function stopAndStartAgain(dataDir: string, repair: () => Promise<void> | void): Promise<void> {
    gateway.process.kill('SIGTERM');
    expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
    expect(gateway.process.stderr).toContain('All acknowledged events are recorded; the stop of the gateway could not');
    await repair();
    gateway = await serve({ dataDir, env });
    expect((await chat()).status).toBe(200);
    const events = await eventsIn(dataDir);
    const types = events.filter(({ stream }) => stream === `exchange-${exchange}`).map(({ type }) => type);
    expect(types.filter((type) => type === 'exchange.completed')).toHaveLength(1);
  }

  it('exits with 0 when the engine is gone, and the next start has every acknowledged event', async () => {
    const dataDir = join(folder.path, 'engine');
    await startWith(dataDir);
    await engine.kill();
    await refused();
    await stopAndStartAgain(dataDir, () => engine.restart());
  }, 60_000);

  it.skipIf(typeof disk === 'string')(
    'exits with 0 when the replica has no room, and the next start has every acknowledged event',
    async () => {
      if (typeof disk === 'string') return;
      await startWith(disk.dataDir);
      disk.fill(gateway.process.pid);
      await refused();
      await stopAndStartAgain(disk.dataDir, () => disk.free(gateway.process.pid));
    },
    60_000,
  );
});
