/** The engine of a replicated log in its status, in `GET /health/ready` and in the metrics. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { streamName } from '../../../src/events/event.ts';
import type { LogEngineStatus } from '../../../src/events/log.ts';
import { registerHealth } from '../../../src/http/health.ts';
import { createMetrics } from '../../../src/http/metrics.ts';
import { logFigures, storageHealth } from '../../../src/wiring/log/event-log.ts';
import { noted, write } from '../../contract/event-log.ts';
import { bareServer } from '../../support/bare-server.ts';
import { MemoryEngineStore } from '../../support/memory-engine.ts';
import { Replica } from '../../support/replicas.ts';

const stream = streamName('thing', 'a');

async function openReplica(store = new MemoryEngineStore()) {
  const replica = await Replica.open(() => store.connect(), { timing: { retryMs: 5 } });
  onTestFinished(async () => {
    store.start();
    store.releaseReads();
    await replica.dispose();
  });
  const { log } = replica;
  const engine = (): LogEngineStatus | undefined => log.status().engine;
  return { store, log, engine, append: (n: number) => log.append([write(stream, 'any', noted({ n }))]) };
}

async function served({ log }: Awaited<ReturnType<typeof openReplica>>) {
  const app = bareServer();
  registerHealth(app, {
    log: () => storageHealth(log),
    streamIndex: () => 'ok',
    stopping: () => false,
    engine: () => log.status().engine,
  });
  const metrics = createMetrics({ processMetrics: false });
  metrics.watch({ log: () => logFigures(log) });
  const ready = await app.inject('/health/ready');
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('gateway_log_engine_'));
  return { status: ready.statusCode, engine: ready.json().log_engine, lines };
}

describe('the engine in the status of a log', () => {
  it('is connected and has no unread appends once the log is open', async () => {
    const before = Date.now() - 5;
    const { engine } = await openReplica();
    expect(engine()).toEqual({
      name: 'memory',
      connected: true,
      unreadAppends: 0,
      lastReadAt: expect.any(Number),
    });
    expect(engine()?.lastReadAt).toBeGreaterThanOrEqual(before);
  });

  it('has the appends that the engine acknowledged and did not return yet', async () => {
    const parts = await openReplica();
    const { store, engine, append } = parts;
    store.holdReads();
    const appended = [append(1), append(2), append(3)];
    await expect.poll(() => engine()?.unreadAppends).toBe(3);
    expect(await served(parts)).toMatchObject({
      status: 200,
      engine: { name: 'memory', connected: true, unread_appends: 3 },
      lines: expect.arrayContaining([
        'gateway_log_engine_connected{engine="memory"} 1',
        'gateway_log_engine_unread_appends{engine="memory"} 3',
      ]),
    });
    store.releaseReads();
    await Promise.all(appended);
    expect(engine()?.unreadAppends).toBe(0);
  });

  it('has no unread appends after answers of the engine were lost, repeated or refusals', async () => {
    let calls = 0;
    const kinds = ['twice', 'unanswered', 'lost', 'refused'] as const;
    const store = new MemoryEngineStore({
      append(sent) {
        const kind = sent.some(({ writes }) => writes.length > 0) ? kinds[calls++] : undefined;
        return kind === undefined ? undefined : { kind };
      },
    });
    const { log } = await openReplica(store);
    for (let n = 0; n < 8; n++) await log.append([write(stream, 'any', noted({ n }))]).catch(() => {});
    await expect.poll(() => log.status().engine?.connected).toBe(true);
    await log.append([write(stream, 'any', noted({ n: 8 }))]);
    expect(calls).toBeGreaterThan(kinds.length);
    expect(log.status().engine?.unreadAppends).toBe(0);
  });

  it('is not connected while the engine is down, and connected when it is back', async () => {
    const parts = await openReplica();
    const { store, engine, append } = parts;
    await append(1);
    store.stop();
    await expect.poll(() => engine()?.connected).toBe(false);
    const down = await served(parts);
    expect(down).toMatchObject({ status: 503, engine: { connected: false } });
    expect(down.lines).toContain('gateway_log_engine_connected{engine="memory"} 0');
    store.start();
    await expect.poll(() => engine()?.connected).toBe(true);
    expect((await served(parts)).status).toBe(200);
    expect(engine()?.unreadAppends).toBe(0);
  });

  it('states when something was last read', async () => {
    const parts = await openReplica();
    await parts.append(1);
    const { engine, lines } = await served(parts);
    const at = parts.engine()?.lastReadAt ?? 0;
    expect(engine.last_read_at).toBe(new Date(at).toISOString());
    expect(lines).toContain(`gateway_log_engine_last_read_timestamp_seconds{engine="memory"} ${at / 1000}`);
  });
});
