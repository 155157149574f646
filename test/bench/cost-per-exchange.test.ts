/** What an exchange costs, in figures that do not depend on the speed of the machine. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Allocation } from '../../bench/inside/allocation.ts';
import { probing, whileProbed } from '../../bench/inside/probed.ts';
import { GATEWAY_KEY, startGateway } from '../../bench/servers/gateway.ts';
import type { Server } from '../../bench/servers/launch.ts';
import { startResponder } from '../../bench/upstream/start-upstreams.ts';

const WARM_UP = 100;
const EXCHANGES = 300;
/** On a busy machine some exchanges take so long that the log is synced also before their end: the fewest calls count. */
const BATCH = 5;
/** Those of the gateway's timers, and of threads that wake each other. */
const OTHER_CALLS = 0.8;
/** The log writes so many zeros at a time ahead of its events: once more or less during the measurement. */
const LAID_OUT_KB = 512 / EXCHANGES;
/** Functions that V8 optimises allocate less, and it optimises them sooner or later. */
const NEVER_OPTIMISED = ['--no-opt', '--no-maglev'];

describe.runIf(process.platform === 'linux')('an exchange without other load', () => {
  const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-cost-'));
  const running: Server[] = [];
  let gateway: Server;

  beforeAll(async () => {
    const responder = await startResponder();
    running.push(responder);
    const { nodeFlags, env } = probing('garbage', workDir);
    const providers = { OPENAI: `${responder.origin}/json/v1`, OPENAI_SSE: `${responder.origin}/sse/v1` };
    gateway = await startGateway({
      dataDir: join(workDir, 'data'),
      providers,
      nodeFlags: [...nodeFlags, ...NEVER_OPTIMISED],
      env: env('gateway'),
    });
    running.push(gateway);
  });
  afterAll(async () => {
    await Promise.all(running.map((server) => server.stop()));
    rmSync(workDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function chat(count: number, stream: boolean): Promise<void> {
    const model = stream ? 'openai-sse/canned' : 'openai/canned';
    const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content: 'Name ten things.' }] });
    const headers = { authorization: `Bearer ${GATEWAY_KEY}`, 'content-type': 'application/json' };
    for (let n = 0; n < count; n++) {
      const answer = await fetch(`${gateway.origin}/v1/chat/completions`, { method: 'POST', headers, body });
      expect(answer.status).toBe(200);
      await answer.text();
    }
  }

  /** Of all threads of the process, on files, sockets and the descriptors that wake a thread. */
  function inputAndOutput() {
    const counters = readFileSync(`/proc/${gateway.pid}/io`, 'utf8');
    const counter = (name: string) => Number(new RegExp(`^${name}: (\\d+)$`, 'm').exec(counters)?.[1]);
    return { writtenBytes: counter('wchar'), reads: counter('syscr'), writes: counter('syscw') };
  }

  async function costOf(stream: boolean) {
    await chat(WARM_UP, stream);
    const first = inputAndOutput();
    let reads = Number.POSITIVE_INFINITY;
    let writes = Number.POSITIVE_INFINITY;
    const { seen } = await whileProbed(gateway, 'gateway', workDir, async () => {
      for (let done = 0; done < EXCHANGES; done += BATCH) {
        const before = inputAndOutput();
        await chat(BATCH, stream);
        const after = inputAndOutput();
        reads = Math.min(reads, (after.reads - before.reads) / BATCH);
        writes = Math.min(writes, (after.writes - before.writes) / BATCH);
      }
    });
    const written = inputAndOutput().writtenBytes - first.writtenBytes;
    const eachKb = (bytes: number) => bytes / 1024 / EXCHANGES;
    return { heapKb: eachKb((seen as Allocation).heapBytes), writtenKb: eachKb(written), reads, writes };
  }

  it.each([
    { answer: 'a JSON answer', stream: false, heapKb: 90, writtenKb: 8.3, calls: 6 },
    { answer: 'a stream of 33 events', stream: true, heapKb: 118, writtenKb: 43, calls: 6 },
  ])('of $answer costs no more than before', async ({ stream, heapKb, writtenKb, calls }) => {
    const cost = await costOf(stream);
    expect(cost.heapKb).toBeLessThan(heapKb * 1.08);
    expect(cost.writtenKb).toBeLessThan(writtenKb * 1.05 + LAID_OUT_KB);
    expect(cost.reads).toBeLessThan(calls + OTHER_CALLS);
    expect(cost.writes).toBeLessThan(calls + OTHER_CALLS);
  });
});
