/**
 * Requests beside failing plugins: `node scripts/run.mjs bench/plugins.ts`. One gateway serves requests at a fixed rate;
 * in every second window, other requests also call a plugin that hangs, one that crashes and one that takes memory.
 * Prints the 99th percentile of the first kind in both kinds of windows (the median of the windows), and their ratio.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { GATEWAY_KEY, startGateway } from './servers/gateway.ts';
import { freePort, launchNode, serverOf } from './servers/launch.ts';

const RATE = 100;
const WINDOW_MS = 3_000;
const ROUNDS = 7;
const MOST_RATIO = 1.1;

const plugins = {
  hangs: 'for (;;);',
  crashes: 'process.exit(1);',
  grows: 'const kept = []; for (;;) kept.push(Buffer.alloc(8e6, 1));',
};

const folder = mkdtempSync(join(tmpdir(), 'chancery-bench-plugins-'));
mkdirSync(join(folder, 'plugins'));
for (const [name, code] of Object.entries(plugins)) {
  const source = `import { definePlugin } from 'chancery/plugin';
export default definePlugin({ name: '${name}', hooks: { prompt() { ${code} } } });\n`;
  writeFileSync(join(folder, 'plugins', `${name}.ts`), source);
}

const providerPort = await freePort();
const main = join(import.meta.dirname, '..', 'infra', 'simulated-provider', 'main.ts');
const provider = serverOf(launchNode(main, ['--port', String(providerPort)], {}), `http://127.0.0.1:${providerPort}`);
const gateway = await startGateway({
  dataDir: join(folder, 'data'),
  providers: { LLAMACPP: `${provider.origin}/v1` },
  env: { GUARDRAILS_ENABLED: 'true', PLUGINS_DIR: join(folder, 'plugins'), LOG_LEVEL: 'silent' },
});
const dispatcher = new Agent({ connections: 64 });

async function send(path: string, body: object, userPath: string, method: 'POST' | 'PUT' = 'POST'): Promise<number> {
  const { statusCode, body: answer } = await request(`${gateway.origin}${path}`, {
    method,
    dispatcher,
    headers: {
      authorization: `Bearer ${GATEWAY_KEY}`,
      'content-type': 'application/json',
      'x-gateway-user-path': userPath,
    },
    body: JSON.stringify(body),
  });
  await answer.dump();
  return statusCode;
}

const chat = (userPath: string) =>
  send('/v1/chat/completions', { model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }] }, userPath);

const features = { cache: false, audit: true, usage: true, guardrails: true };
for (const name of Object.keys(plugins)) {
  await send('/admin/guardrails', { name, type: name, config: {}, timeout_ms: 200 }, '/', 'PUT');
  const workflow_payload = { schema_version: 2, features, steps: [{ ref: name }] };
  await send('/admin/workflows', { scope_user_path: `/${name}`, name, workflow_payload }, '/');
}

interface Window {
  readonly times: number[];
  failed: number;
}

const without: Window[] = [];
const beside: Window[] = [];
const failures = new Map<string, number>();

/** Sends at the rate, independent of the time of the answers; a time is from the moment at which the request was due. */
async function measure(): Promise<Window> {
  const window: Window = { times: [], failed: 0 };
  const started = performance.now();
  const sent: Promise<void>[] = [];
  for (let at = 0; at < (RATE * WINDOW_MS) / 1000; at++) {
    const due = started + (at * 1000) / RATE;
    await delay(Math.max(0, due - performance.now()));
    const answered = chat('/others').then((status) => {
      window.times.push(performance.now() - due);
      if (status !== 200) window.failed += 1;
    });
    sent.push(answered);
  }
  await Promise.all(sent);
  return window;
}

/** Calls the failing plugins, one request of each at a time, twenty in a second at most. */
async function callFailing(until: AbortSignal): Promise<void> {
  const call = async (name: string): Promise<void> => {
    while (!until.aborted) {
      const status = await chat(`/${name}`);
      failures.set(`${name} ${status}`, (failures.get(`${name} ${status}`) ?? 0) + 1);
      await delay(50);
    }
  };
  await Promise.all(Object.keys(plugins).map(call));
}

function percentile(times: readonly number[], share: number): number {
  const sorted = times.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

// Warm-up.
await measure();
await measure();
for (let round = 0; round < ROUNDS; round++) {
  without.push(await measure());
  const over = new AbortController();
  const failing = callFailing(over.signal);
  beside.push(await measure());
  over.abort();
  await failing;
}

/** The median of the windows, so that one disturbance of the machine does not decide. */
function ofWindows(windows: readonly Window[], share: number): number {
  return percentile(
    windows.map(({ times }) => percentile(times, share)),
    0.5,
  );
}

const ratio = ofWindows(beside, 0.99) / ofWindows(without, 0.99);
const failed = [...without, ...beside].reduce((sum, window) => sum + window.failed, 0);
for (const [name, windows] of Object.entries({ without, beside })) {
  const [p50, p99] = [0.5, 0.99].map((share) => ofWindows(windows, share).toFixed(2));
  const each = windows.map(({ times }) => percentile(times, 0.99).toFixed(1)).join(', ');
  console.log(`${name}: p50 ${p50} ms, p99 ${p99} ms (windows: ${each})`);
}
console.log(`failed: ${failed} of ${[...without, ...beside].reduce((sum, { times }) => sum + times.length, 0)}`);
console.log(`requests of failing plugins: ${[...failures].map(([what, count]) => `${what}: ${count}`).join(', ')}`);
console.log(`p99 beside failing plugins / p99 without: ${ratio.toFixed(2)}`);

await dispatcher.close();
await gateway.stop();
await provider.stop();
rmSync(folder, { recursive: true, force: true });
process.exitCode = ratio <= MOST_RATIO && failed === 0 ? 0 : 1;
