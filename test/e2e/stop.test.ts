import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { main } from '../support/main-program.ts';
import {
  ask,
  killAll,
  type ServedGateway,
  type ServeOptions,
  serve,
  startProcess,
  temporaryFolder,
} from './gateway-process.ts';
import { eventsIn } from './recorded-events.ts';

const folder = temporaryFolder();
const provider = createSimulatedProvider({ responses: 'absent' });
let upstream = '';
let dataDir = '';
let runs = 0;

beforeAll(async () => {
  upstream = await provider.listen();
});
afterEach(() => {
  killAll();
  provider.control.release();
});
afterAll(async () => {
  killAll();
  await provider.close();
  folder.remove();
});

function start(options: Omit<ServeOptions, 'dataDir'> = {}): Promise<ServedGateway> {
  runs += 1;
  dataDir = join(folder.path, String(runs));
  return serve({ ...options, dataDir, env: { LLAMACPP_BASE_URL: upstream, ...options.env } });
}

/** A stream that pauses after its first frames until the provider is released. */
async function heldStream(url: string, path: '/v1/chat/completions' | '/v1/responses'): Promise<Held> {
  const requestBody = path === '/v1/responses' ? { input: 'Hi' } : { messages: [{ role: 'user', content: 'Hi' }] };
  const model = 'llamacpp/simulated-small';
  provider.control.next({ holdAfterChunks: 3 }, { path: '/v1/chat/completions' });
  const response = await ask(url, path, { json: { model, stream: true, ...requestBody } });
  const reader = response.body?.getReader();
  if (reader === undefined) throw new Error('there is no stream');
  const first = await reader.read();
  await expect.poll(() => provider.requests.at(-1)?.framesSent).toBe(3);
  return {
    exchangeId: response.headers.get('x-exchange-id') ?? '',
    async rest() {
      const pieces = [Buffer.from(first.value ?? [])];
      for (let next = await reader.read(); !next.done; next = await reader.read()) pieces.push(Buffer.from(next.value));
      return Buffer.concat(pieces).toString();
    },
  };
}

interface Held {
  readonly exchangeId: string;
  /** All of the body, once it has ended. */
  rest(): Promise<string>;
}

/** The usage of a stream that was cut off before its provider reported any. */
const estimatedUsage = {
  estimated: true,
  source: 'unknown',
  inputTokens: null,
  outputTokens: null,
  estimatedInputTokens: expect.any(Number),
  estimatedOutputTokens: expect.any(Number),
};

/** Resolves once the gateway accepts no new requests. */
async function untilRefused(url: string): Promise<void> {
  await expect
    .poll(
      () =>
        ask(url, '/v1/models').then(
          ({ status }) => status,
          () => 'refused',
        ),
      { timeout: 5000, interval: 10 },
    )
    .toBe('refused');
}

describe('SIGTERM', () => {
  it('ends an idle gateway at once with code 0, and is recorded', async () => {
    const { process } = await start();
    process.kill('SIGTERM');
    expect(await process.exited).toEqual({ code: 0, signal: null });
    const types = (await eventsIn(dataDir)).map(({ type }) => type);
    expect(types.at(-1)).toBe('gateway.stopped');
  });

  it('lets a running stream finish, and accepts no new requests meanwhile', async () => {
    const { url, process } = await start();
    const stream = await heldStream(url, '/v1/chat/completions');
    process.kill('SIGTERM');
    await untilRefused(url);
    provider.control.release();
    expect(await stream.rest()).toMatch(/"finish_reason":"stop"[\s\S]*data: \[DONE\]\n\n$/);
    expect(await process.exited).toEqual({ code: 0, signal: null });

    const events = await eventsIn(dataDir);
    const exchange = events.filter((event) => event.stream === `exchange-${stream.exchangeId}`);
    expect(exchange.map(({ type }) => type)).toContain('exchange.completed');
    expect(events.at(-1)).toMatchObject({ type: 'gateway.stopped', data: { reason: 'SIGTERM', cutExchanges: 0 } });
  });

  it('waits until a client that reads slowly has all of its answer', async () => {
    const { url, process } = await start();
    const size = 20_000_000;
    const messages = [{ role: 'user', content: 'Hi' }];
    const json = { model: 'llamacpp/simulated-small', messages, simulate: { oversizedBytes: size } };
    const reading = await ask(url, '/v1/chat/completions', { json });
    process.kill('SIGTERM');
    await untilRefused(url);
    // Nothing of the body has been read until now, so most of it is still in the gateway.
    expect((await reading.arrayBuffer()).byteLength).toBeGreaterThan(size);
    expect(await process.exited).toEqual({ code: 0, signal: null });
  });

  it('cuts a chat stream that outlasts the grace period: it ends with an error, and is recorded', async () => {
    const { url, process } = await start({ env: { DRAIN_TIMEOUT: '150ms' } });
    const stream = await heldStream(url, '/v1/chat/completions');
    process.kill('SIGTERM');
    const body = await stream.rest();
    expect(body).not.toContain('[DONE]');
    expect(JSON.parse(body.trim().split('data: ').at(-1) ?? '')).toMatchObject({
      error: { type: 'internal_error', code: 'stopping' },
    });
    expect(await process.exited).toEqual({ code: 0, signal: null });

    const events = await eventsIn(dataDir);
    const exchange = events.filter((event) => event.stream === `exchange-${stream.exchangeId}`);
    expect(exchange.find(({ type }) => type === 'exchange.failed')).toMatchObject({
      data: { reason: 'gateway_stopped', status: 200 },
    });
    expect(exchange.at(-1)).toMatchObject({ type: 'usage.recorded', data: estimatedUsage });
    expect(events.at(-1)).toMatchObject({ type: 'gateway.stopped', data: { cutExchanges: 1 } });
  });

  it('fails a response that is cut after the configured grace period, and stores its output so far', async () => {
    const cwd = join(folder.path, 'settings');
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'chancery.yaml'), 'server:\n  drain_timeout: 150ms\n');
    const { url, process } = await start({ cwd });
    const stream = await heldStream(url, '/v1/responses');
    process.kill('SIGTERM');
    const frames = (await stream.rest()).trim().split('\n\n');
    expect(frames.at(-1)).toBe('data: [DONE]');
    const [, terminal = ''] = /^event: response\.failed\ndata: (.+)$/.exec(frames.at(-2) ?? '') ?? [];
    const { response } = JSON.parse(terminal);
    expect(response).toMatchObject({ status: 'failed', incomplete_details: null, error: { code: 'stopping' } });
    expect((await process.exited).code).toBe(0);

    const again = await serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream } });
    const kept = await ask(again.url, `/v1/responses/${response.id}`);
    expect(await kept.json()).toEqual(response);
  });

  it('sent twice, half a second or more apart, ends the gateway at once', async () => {
    const { url, process } = await start({ env: { DRAIN_TIMEOUT: '60s' } });
    const stream = await heldStream(url, '/v1/chat/completions');
    process.kill('SIGTERM');
    await untilRefused(url);
    // A time: the one between the two signals is the subject.
    await sleep(550);
    const requestCount = performance.now();
    process.kill('SIGTERM');
    const { code } = await process.exited;
    expect(performance.now() - requestCount).toBeLessThan(2000);
    expect(code).toBe(1);
    await expect(stream.rest()).rejects.toThrow();

    // The next start closes exchanges that were left open.
    const again = await serve({ dataDir, env: { LLAMACPP_BASE_URL: upstream } });
    again.process.kill('SIGTERM');
    await again.process.exited;
    const exchange = (await eventsIn(dataDir)).filter((event) => event.stream === `exchange-${stream.exchangeId}`);
    expect(exchange.find(({ type }) => type === 'exchange.failed')).toMatchObject({
      data: { reason: 'gateway_stopped' },
    });
    expect(exchange.at(-1)).toMatchObject({ type: 'usage.recorded', data: estimatedUsage });
  });
});

describe('two signals at the same moment', () => {
  it.each([
    ['SIGTERM', 'SIGINT'],
    ['SIGINT', 'SIGTERM'],
  ] as const)('%s and %s count as one: a running stream still finishes', async (one, other) => {
    const { url, process } = await start({ env: { DRAIN_TIMEOUT: '60s' } });
    const stream = await heldStream(url, '/v1/chat/completions');
    process.kill(one);
    process.kill(other);
    await untilRefused(url);
    provider.control.release();
    expect(await stream.rest()).toMatch(/data: \[DONE\]\n\n$/);
    expect(await process.exited).toEqual({ code: 0, signal: null });
  });
});

describe('an error that no code handles', () => {
  const fault = (body: string) => {
    const source = `process.on('SIGUSR2',()=>{${body}})`;
    return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(source)}` };
  };
  const error = "new Error('outer',{cause:new Error('inner')})";

  it.each([
    ['a rejected promise', `Promise.reject(${error})`],
    ['an exception', `throw ${error}`],
  ])('(%s) is logged with its cause and stops the gateway in an orderly way, with code 1', async (_what, body) => {
    const { url, process } = await start({ env: fault(body) });
    const stream = await heldStream(url, '/v1/chat/completions');
    process.kill('SIGUSR2');
    await untilRefused(url);
    provider.control.release();
    expect(await stream.rest()).toMatch(/data: \[DONE\]\n\n$/);
    expect(await process.exited).toEqual({ code: 1, signal: null });
    expect(process.stderr).toMatch(/outer[\s\S]*inner/);
    const events = await eventsIn(dataDir);
    expect(events.at(-1)).toMatchObject({ type: 'gateway.stopped', data: { cutExchanges: 0 } });
  });
});

describe('a gateway with a channel to the process that started it', () => {
  it('ends by itself after a stop, although that process keeps the channel open', async () => {
    const gateway = startProcess({ channel: true, env: { DATA_DIR: join(folder.path, 'channel') } });
    await gateway.listening;
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });

  it('ends with code 0 also when the stop takes a second', async () => {
    const { url, process } = await start({ channel: true, env: { DRAIN_TIMEOUT: '1s' } });
    await heldStream(url, '/v1/chat/completions');
    process.kill('SIGTERM');
    expect(await process.exited).toEqual({ code: 0, signal: null });
  });
});

describe('SIGHUP', () => {
  it('while the program loads does not end it', async () => {
    const hooks = join(folder.path, 'hooks.mjs');
    writeFileSync(
      hooks,
      `import { registerHooks } from 'node:module';
       let loaded = 0;
       registerHooks({
         load(url, context, next) {
           if (url.startsWith('file:') && loaded++ > 0) process.kill(process.pid, 'SIGHUP');
           return next(url, context);
         },
       });`,
    );
    const command = [process.execPath, '--import', hooks, main, 'serve'] as const;
    const { process: gateway } = await start({ command });
    gateway.kill('SIGTERM');
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
  });

  it.each(['1', '2'])('until the end of a stop leaves the exit code at 0, with GATEWAY_WORKERS=%s', async (workers) => {
    const { process: gateway } = await start({ env: { GATEWAY_WORKERS: workers } });
    gateway.kill('SIGTERM');
    const again = setInterval(() => gateway.kill('SIGHUP'), 2);
    onTestFinished(() => clearInterval(again));
    expect(await gateway.exited).toEqual({ code: 0, signal: null });
    expect(gateway.stderr).not.toContain('still open');
  });
});
