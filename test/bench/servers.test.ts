import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runLoad } from '../../bench/load/load.ts';
import type { Server } from '../../bench/servers/launch.ts';
import { readPeer } from '../../bench/servers/peer.ts';
import { memoryOf, processorMs } from '../../bench/servers/process-stat.ts';
import { startBarePassthrough } from '../../bench/servers/stand-ins.ts';
import { type Subjects, startSubjects } from '../../bench/servers/start-subjects.ts';
import type { Subject } from '../../bench/servers/subject.ts';
import { chatEvents, chatJson } from '../../bench/upstream/canned.ts';
import { startResponder, startUpstreams, type Upstreams } from '../../bench/upstream/start-upstreams.ts';
import { requestFor, WORKS } from '../../bench/work.ts';

let upstreams: Upstreams;
let subjects: Subjects;
const running: Server[] = [];
const workDir = mkdtempSync(join(tmpdir(), 'chancery-bench-test-'));
beforeAll(async () => {
  upstreams = await startUpstreams();
  const file = join(workDir, 'peer.json');
  const relay = fileURLToPath(new URL('../../bench/bare-passthrough.ts', import.meta.url));
  writeFileSync(
    file,
    JSON.stringify({ name: 'peer', command: process.execPath, args: [relay, '{port}', '{upstream}'] }),
  );
  const peers = [readPeer(file)];
  subjects = await startSubjects({ kinds: ['direct', 'bare', 'gateway', 'governed'], peers, workDir, upstreams });
}, 60_000);
afterAll(async () => {
  await subjects.stop();
  await Promise.all(running.map((server) => server.stop()));
  await upstreams.stop();
  rmSync(workDir, { recursive: true, force: true, maxRetries: 5 });
});

describe('the servers of the benchmark', () => {
  it.each(WORKS)('answer $name, every byte as expected', async (work) => {
    const check = async (subject: Subject) => {
      const parsedRequest = subject.subjectRequest(work.upstream);
      if (parsedRequest === undefined) throw new Error(`${subject.name} takes no part`);
      const result = await runLoad({ ...requestFor(work, parsedRequest), connections: 2, seconds: 0.2 });
      expect(result.failures, subject.name).toEqual({});
      expect(result.total, subject.name).toBeGreaterThan(0);
    };
    await Promise.all(subjects.all.map(check));
  });

  it('become idle, and can be measured while they run', async () => {
    for (const subject of subjects.all) {
      expect(await subject.rest(), subject.name).toBe(true);
      const { pid, end } = subject.process('instant');
      expect(memoryOf(pid).residentMb).toBeGreaterThan(1);
      expect(memoryOf(pid).peakMb).toBeGreaterThanOrEqual(memoryOf(pid).residentMb);
      expect(processorMs(pid)).toBeGreaterThan(0);
      expect(end()).toBeUndefined();
    }
  });
});

describe('the raw-socket responder', () => {
  let responder: Server;
  let bare: Server;
  beforeAll(async () => {
    responder = await startResponder();
    bare = await startBarePassthrough(responder);
    running.push(responder, bare);
  });
  const post = (origin: string, path: string) => fetch(`${origin}${path}`, { method: 'POST', body: '{"model":"m"}' });

  it('answers like the other upstream', async () => {
    for (const path of ['/json/v1/chat/completions', '/sse/v1/chat/completions']) {
      const [own, other] = [
        await post(responder.origin, path),
        await post(upstreams.servers.instant.origin, path),
      ] as const;
      expect(own.headers.get('content-type')).toBe(other.headers.get('content-type'));
      expect(await own.text()).toBe(await other.text());
    }
  });

  it('waits as long as the path states', async () => {
    const began = performance.now();
    const response = await post(responder.origin, '/wait-60/v1/chat/completions');
    expect(await response.text()).toBe(chatJson);
    expect(performance.now() - began).toBeGreaterThan(58);
  });

  it('keeps a pace and stamps each word with the time at which it was sent', async () => {
    const result = await runLoad({
      url: `${responder.origin}/pace-10/v1/chat/completions`,
      body: '{}',
      connections: 1,
      seconds: 0.5,
      stream: true,
      stamped: true,
      expect: { length: Buffer.byteLength(chatEvents({ stamped: true }).join('')) },
    });
    expect(result.failures).toEqual({});
    expect(result.answers).toBeGreaterThan(0);
    // 30 words: the first at once, 29 of them 10 ms apart.
    expect(result.latencyMs.p50).toBeGreaterThan(270);
    expect(result.firstDataMs?.p50).toBeLessThan(result.latencyMs.p50 - 250);
    expect(result.wordMs?.count).toBeGreaterThanOrEqual(30);
    expect(result.wordMs?.p50).toBeLessThan(10);
  });

  it('is relayed by the bare pass-through byte by byte, with its status', async () => {
    const [direct, relayed] = [await post(responder.origin, '/nowhere'), await post(bare.origin, '/nowhere')];
    expect(relayed.status).toBe(404);
    expect(await relayed.text()).toBe(await direct.text());
  });
});
