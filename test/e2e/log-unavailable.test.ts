import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { exchangeEnds } from '../../src/events/catalogue/exchange.ts';
import { streamName } from '../../src/events/event.ts';
import {
  ask,
  killAll,
  MASTER_KEY,
  type ServedGateway,
  serve,
  startProcess,
  temporaryFolder,
} from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';
import { ifPossible, limitedFiles, type ScarceDisk, tinyFileSystem } from './scarce-disk.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
const model = 'llamacpp/simulated-small';
const messages = [{ role: 'user', content: 'Hello there' }];
/** Larger than what may be left over in the last block of a file. */
const longMessages = [{ role: 'user', content: 'Hello there! '.repeat(2000) }];

let upstream = '';
beforeAll(async () => {
  upstream = await provider.listen();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

describe.each([
  { what: 'a file system without space (ENOSPC)', make: tinyFileSystem },
  { what: 'a limit on the size of files (EFBIG)', make: limitedFiles },
])('a log that cannot be written: $what', ({ make }) => {
  const possible = ifPossible(make, join(folder.path, make.name));
  if (typeof possible === 'string') it.skip(`cannot be made here: ${possible}`, () => {});
  if (typeof possible === 'string') return;
  const disk: ScarceDisk = possible;
  const { dataDir } = disk;
  let gateway: ServedGateway;
  const acknowledged: string[] = [];

  beforeAll(async () => {
    gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream, LOG_LEVEL: 'error' } });
  });
  afterEach(() => provider.control.release());
  afterAll(() => {
    killAll();
    disk.remove();
  });

  const chat = (json: object = { model, messages }) => ask(gateway.url, '/v1/chat/completions', { json });

  async function expectServed(): Promise<void> {
    const response = await chat();
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ object: 'chat.completion' });
    acknowledged.push(response.headers.get('x-exchange-id') ?? '');
  }

  async function fillUp(): Promise<void> {
    disk.fill(gateway.process.pid);
    // One request has to fail first.
    await expect.poll(async () => (await chat({ model, messages: longMessages })).status).toBe(503);
  }

  async function freeUp(): Promise<void> {
    disk.free(gateway.process.pid);
    await expect
      .poll(async () => (await fetch(`${gateway.url}/health/ready`)).status, { timeout: 10_000, interval: 50 })
      .toBe(200);
  }

  it('answers every model route with 503 log_unavailable and Retry-After, and calls no provider', async () => {
    for (let request = 0; request < 5; request++) await expectServed();
    await fillUp();
    const calls = provider.requests.length;
    const input = 'Hello';
    const routes: [string, object][] = [
      ['/v1/chat/completions', { model, messages }],
      ['/v1/chat/completions', { model, messages, stream: true }],
      ['/v1/responses', { model, input }],
      ['/v1/responses', { model, input, stream: true }],
      ['/v1/embeddings', { model, input }],
      ['/p/llamacpp/tokenize', { content: input }],
    ];
    for (const [path, json] of routes) {
      const response = await ask(gateway.url, path, { json });
      expect([path, response.status]).toEqual([path, 503]);
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(await response.json()).toMatchObject({ error: { type: 'internal_error', code: 'log_unavailable' } });
    }
    expect((await ask(gateway.url, '/p/llamacpp/health')).status).toBe(503);
    expect(provider.requests.slice(calls).map(({ path }) => path)).toEqual([]);
  });

  it('is not ready meanwhile, but alive', async () => {
    const ready = await fetch(`${gateway.url}/health/ready`);
    expect(ready.status).toBe(503);
    expect(await ready.json()).toMatchObject({ status: 'not_ready' });
    expect((await fetch(`${gateway.url}/health`)).status).toBe(200);
    expect((await ask(gateway.url, '/v1/models')).status).toBe(200);
  });

  it('recovers without a restart as soon as there is space', async () => {
    await freeUp();
    for (let request = 0; request < 5; request++) await expectServed();
    const metrics = await (await ask(gateway.url, '/metrics')).text();
    const projections = metrics.split('\n').filter((line) => line.startsWith('gateway_projection_running{'));
    expect(projections.length).toBeGreaterThan(0);
    expect(projections.filter((line) => !line.endsWith(' 1'))).toEqual([]);
  });

  it.each([
    ['/v1/chat/completions', { model, messages, stream: true }],
    ['/v1/responses', { model, input: 'Hello there', stream: true }],
  ])('ends a stream of %s that is open at that time with an error, and never as complete', async (path, json) => {
    // The frame after the pause is too large for whatever space may be left.
    provider.control.next({ holdAfterChunks: 1, oversizedBytes: 100_000 }, { path: '/v1/chat/completions' });
    const response = await ask(gateway.url, path, { json });
    const reader = response.body?.getReader();
    const first = await reader?.read();
    await fillUp();
    provider.control.release();
    const pieces = [Buffer.from(first?.value ?? [])];
    const broken = await (async () => {
      for (let next = await reader?.read(); next?.done === false; next = await reader?.read()) {
        pieces.push(Buffer.from(next.value));
      }
    })().catch((error: unknown) => error);
    const body = Buffer.concat(pieces).toString();
    expect(body).not.toContain('[DONE]');
    expect(body).not.toContain('response.completed');
    expect(broken !== undefined || body.includes('log_unavailable')).toBe(true);

    await freeUp();
    await expectServed();
    const exchangeId = response.headers.get('x-exchange-id');
    const exchange = (await eventsIn(dataDir)).filter(({ stream }) => stream === `exchange-${exchangeId}`);
    expect(exchange.length).toBeGreaterThan(0);
    expect(exchange.map(({ type }) => type)).not.toContain('exchange.completed');
  });

  it('has lost no acknowledged answer, and leaves nothing open', async () => {
    gateway.process.kill('SIGTERM');
    expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
    const events = await eventsIn(dataDir);
    const completed = new Set(events.filter(({ type }) => type === 'exchange.completed').map(({ stream }) => stream));
    expect(acknowledged.filter((id) => !completed.has(streamName('exchange', id)))).toEqual([]);
    expect(acknowledged.length).toBeGreaterThan(10);
    const ended = new Set(events.filter(({ type }) => exchangeEnds.has(type)).map(({ stream }) => stream));
    const begun = events.filter(({ type }) => type === 'request.received').map(({ stream }) => stream);
    expect(begun.filter((stream) => !ended.has(stream))).toEqual([]);
    expect(events.at(-1)?.type).toBe('gateway.stopped');
  });

  it('exits with 0 when it is stopped while there is no space, reports that the stop is not recorded, and loses nothing', async () => {
    gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream, LOG_LEVEL: 'error' } });
    await expectServed();
    await fillUp();
    gateway.process.kill('SIGTERM');
    expect(await gateway.process.exited, gateway.process.stderr).toEqual({ code: 0, signal: null });
    const { stderr } = gateway.process;
    expect(stderr).toContain('All acknowledged events are recorded; the stop of the gateway could not');
    expect(stderr).toMatch(/the event log cannot be written: E[A-Z]+: [^"\n]* \(in \S+\/data\/log\)/);
    expect(stderr).not.toContain('"stack"');
    disk.free(gateway.process.pid);
    gateway = await serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream } });
    await expectServed();
    const ends = await eventsIn(dataDir);
    for (const id of acknowledged.slice(-2)) {
      expect(ends.filter(({ type, stream }) => type === 'exchange.completed' && stream.endsWith(id))).toHaveLength(1);
    }
  });

  it.runIf(make === tinyFileSystem)('names the folder when it is started while there is no space', async () => {
    gateway.process.kill('SIGKILL');
    await gateway.process.exited;
    // Enough for a new segment of the log, but not for read models.
    const slack = join(dataDir, 'slack');
    writeFileSync(slack, Buffer.alloc(100 * 1024));
    disk.fill(0);
    for (const file of ['slack', 'views.db', 'views.db-wal', 'views.db-shm'])
      rmSync(join(dataDir, file), { force: true });
    const started = startProcess({
      env: { DATA_DIR: dataDir, GATEWAY_MASTER_KEY: MASTER_KEY, LLAMACPP_BASE_URL: upstream, PORT: '0' },
    });
    expect(await started.exited).toEqual({ code: 1, signal: null });
    expect(started.stderr).toContain(`The gateway could not start: the disk of ${dataDir} is full`);
    disk.free(0);
  });
});
