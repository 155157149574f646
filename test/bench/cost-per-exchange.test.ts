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

  /** Of the process, to files and sockets. */
  function writtenBytes(): number {
    return Number(/^wchar: (\d+)$/m.exec(readFileSync(`/proc/${gateway.pid}/io`, 'utf8'))?.[1]);
  }

  async function costOf(stream: boolean) {
    await chat(WARM_UP, stream);
    const before = writtenBytes();
    const { seen } = await whileProbed(gateway, 'gateway', workDir, () => chat(EXCHANGES, stream));
    const written = writtenBytes() - before;
    const each = (bytes: number) => bytes / 1024 / EXCHANGES;
    return { heapKb: each((seen as Allocation).heapBytes), writtenKb: each(written) };
  }

  it.each([
    { answer: 'a JSON answer', stream: false, heapKb: 110, writtenKb: 8.3 },
    { answer: 'a stream of 33 events', stream: true, heapKb: 148, writtenKb: 43 },
  ])('of $answer costs no more than before', async ({ stream, heapKb, writtenKb }) => {
    const cost = await costOf(stream);
    expect(cost.heapKb).toBeLessThan(heapKb * 1.1);
    expect(cost.writtenKb).toBeLessThan(writtenKb * 1.1 + LAID_OUT_KB);
  });
});
