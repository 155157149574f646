import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Allocation, allocationOf } from '../../bench/inside/allocation.ts';
import { probing, whileProbed } from '../../bench/inside/probed.ts';
import { areasOf, type CpuProfile } from '../../bench/inside/profile-areas.ts';
import { stallsOf } from '../../bench/inside/stalls.ts';
import type { Server } from '../../bench/servers/launch.ts';
import { threadMs } from '../../bench/servers/process-stat.ts';
import { startBarePassthrough } from '../../bench/servers/stand-ins.ts';
import { startResponder } from '../../bench/upstream/start-upstreams.ts';

const at = (usedHeapSize: number, externalMemory: number) => ({ heapStatistics: { usedHeapSize, externalMemory } });

describe('the memory that was allocated', () => {
  it('is the growth between collections, whatever they freed', () => {
    const collections = [
      { gcType: 'Scavenge', cost: 1500, beforeGC: at(180, 30), afterGC: at(110, 10) },
      { gcType: 'MarkSweepCompact', cost: 4000, beforeGC: at(160, 10), afterGC: at(90, 5) },
    ];
    expect(allocationOf({ heap: 100, external: 20 }, collections, { heap: 120, external: 25 })).toEqual({
      heapBytes: 80 + 50 + 30,
      externalBytes: 10 + 0 + 20,
      collections: 2,
      pauseMs: 5.5,
      longestPauseMs: 4,
    });
  });

  it('is the growth alone when nothing was collected', () => {
    const { heapBytes, pauseMs, longestPauseMs } = allocationOf({ heap: 5, external: 0 }, [], { heap: 9, external: 0 });
    expect([heapBytes, pauseMs, longestPauseMs]).toEqual([4, 0, 0]);
  });
});

describe('the areas of a profile', () => {
  const profile = (
    ...frames: readonly (readonly [functionName: string, url: string, micros: number])[]
  ): CpuProfile => ({
    nodes: frames.map(([functionName, url], id) => ({ id, callFrame: { functionName, url } })),
    samples: frames.map((_, id) => id),
    timeDeltas: frames.map(([, , micros]) => micros),
  });
  const areaOf = (functionName: string, url: string) => areasOf(profile([functionName, url, 1]))[0]?.name;

  it.each([
    ['encodeAppend', 'file:///g/src/events/embedded/append-batch.ts', 'log: encode and write'],
    ['parseExactly', 'file:///g/src/json/exact-json.ts', 'JSON'],
    ['ask', 'file:///g/src/commands/exchange/exchange.ts', 'pipeline: exchange'],
    ['route', 'file:///g/src/commands/virtual-models/router.ts', 'commands: other'],
    ['send', 'file:///g/src/http/server.ts', 'http: routes'],
    ['push', 'file:///g/src/providers/stream-frames.ts', 'providers: transport'],
    ['dispatch', 'file:///g/node_modules/undici/lib/dispatcher/client.js', 'undici'],
    ['parserOnIncoming', 'node:_http_server', 'node: http'],
    ['nextTick', 'node:internal/process/task_queues', 'node: net, streams, events, timers'],
    ['fdatasync', '', 'native: disk'],
    ['writev', '', 'native: sockets'],
    ['(garbage collector)', '', 'garbage collection'],
    ['(program)', '', 'program and native code'],
  ])('%s of %j is in the area %s', (functionName, url, area) => {
    expect(areaOf(functionName, url)).toBe(area);
  });

  it('are sorted by time, with their functions, without idle time and the profiler', () => {
    const areas = areasOf(
      profile(
        ['(idle)', '', 900],
        ['post', 'node:inspector', 500],
        ['ask', 'file:///g/src/commands/exchange/exchange.ts', 30],
        ['dispatch', 'file:///g/node_modules/undici/lib/dispatcher/client.js', 70],
        ['ask', 'file:///g/src/commands/exchange/exchange.ts', 10],
      ),
    );
    expect(areas.map(({ name, micros }) => [name, micros])).toEqual([
      ['undici', 70],
      ['pipeline: exchange', 40],
    ]);
    expect(areas[1]?.functions).toEqual([{ name: 'ask exchange/exchange.ts', micros: 40 }]);
  });
});

describe('the stalls in a profile', () => {
  it('are the times without idle ones, with what took longest and who called it', () => {
    const frame = (id: number, functionName: string, url: string, children: number[] = []) => {
      return { id, callFrame: { functionName, url }, children };
    };
    const profile = {
      nodes: [
        frame(1, '(root)', '', [2, 3, 5]),
        frame(2, '(idle)', ''),
        frame(3, 'write', 'file:///g/src/events/embedded/disk.ts', [4]),
        frame(4, 'writeBuffer', ''),
        frame(5, 'next', 'node:events'),
      ],
      samples: [2, 3, 4, 5, 2, 4, 2, 5],
      timeDeltas: [0, 100, 1_000, 14_000, 500, 200, 4_000, 9_000],
    };
    expect(stallsOf(profile, 5)).toEqual([
      {
        ms: 15.5,
        functions: [
          { name: 'writeBuffer in write embedded/disk.ts', ms: 14 },
          { name: 'write embedded/disk.ts', ms: 1 },
          { name: 'next node:events', ms: 0.5 },
        ],
      },
    ]);
  });
});

describe('the probe in a server', () => {
  const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-probe-'));
  const running: Server[] = [];
  let responder: Server;
  beforeAll(async () => {
    responder = await startResponder();
    running.push(responder);
  });
  afterAll(async () => {
    await Promise.all(running.map((server) => server.stop()));
    rmSync(workDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function probed(kind: 'garbage' | 'profile', name: string): Promise<unknown> {
    const { nodeFlags, env } = probing(kind, workDir);
    const server = await startBarePassthrough(responder, { nodeFlags, env: env(name) });
    running.push(server);
    const ask = async () => {
      for (let n = 0; n < 50; n++) {
        await (await fetch(`${server.origin}/json/v1/chat/completions`, { method: 'POST', body: '{}' })).text();
      }
    };
    expect(threadMs(server.pid).size).toBeGreaterThan(1);
    return (await whileProbed(server, name, workDir, ask)).seen;
  }

  it('reports the bytes that 50 requests allocated', async () => {
    const { heapBytes } = (await probed('garbage', 'one')) as Allocation;
    expect(heapBytes).toBeGreaterThan(50 * 1000);
  });

  it('reports where their time went', async () => {
    const areas = areasOf((await probed('profile', 'two')) as CpuProfile);
    expect(areas.map(({ name }) => name)).toContain('undici');
  });
});
