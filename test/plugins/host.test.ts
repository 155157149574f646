import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { type HookCall, PluginFailure, PluginHost } from '../../src/plugins/host/plugin-host.ts';
import { locatePlugin } from '../../src/plugins/locate.ts';
import { readPluginManifest } from '../../src/plugins/manifest.ts';
import { someOf } from '../support/seed.ts';
import { isAlive, pluginFolder, source } from './plugin-files.ts';

const MIB = 1024 * 1024;
const context = { requestId: 'r', userPath: '/team', model: 'm', provider: 'p', labels: ['a'] };

const open: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

interface Started {
  readonly host: PluginHost;
  readonly manifest: unknown;
  readonly lines: string[];
  /** Reasons of ends that were not wanted. */
  readonly crashes: string[];
  /** Resolves at the next of them. */
  crashed(): Promise<string>;
  call(input?: unknown, options?: Partial<HookCall>): Promise<unknown>;
}

async function start(
  code: string | Readonly<Record<string, string>>,
  { path = 'p.ts', memoryMb = 256, initMs = 10_000, maxInFlight = 64 } = {},
): Promise<Started> {
  const { folder, remove } = pluginFolder(typeof code === 'string' ? { [path]: code } : code);
  open.push(remove);
  const files = await locatePlugin({ path }, folder);
  const lines: string[] = [];
  const crashes: string[] = [];
  let next = Promise.withResolvers<string>();
  const host = new PluginHost({
    ...files,
    memoryBytes: memoryMb * MIB,
    initMs,
    graceMs: 300,
    maxInFlight,
    output: (line) => lines.push(line),
    crashed(reason) {
      crashes.push(reason);
      next.resolve(reason);
      next = Promise.withResolvers();
    },
  });
  open.push(() => host.stop());
  const manifest = await host.start();
  return {
    ...{ host, manifest, lines, crashes },
    crashed: () => next.promise,
    call: (input = [], options = {}) =>
      host.call({ hook: 'prompt', input, context, config: {}, deadlineMs: 5000, ...options }),
  };
}

const failure = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    (value) => `no failure: ${JSON.stringify(value)}`,
    (error: unknown) => (error instanceof PluginFailure ? error.message : `another error: ${String(error)}`),
  );

describe('a plugin in its process', () => {
  it('runs its hooks with data and context', async () => {
    const { call, manifest } = await start(
      source(
        'prompt: (texts, { userPath, labels, config }) => ({ findings: { n: texts.length }, message: [userPath, labels, config.word].join() })',
        {
          facts: "version: '1.2', config: z.object({ word: z.string().default('x') }),",
        },
      ),
    );
    expect(readPluginManifest(manifest)).toMatchObject({
      name: 'p',
      version: '1.2',
      hooks: ['prompt'],
      phases: ['prompt'],
    });
    expect(await call([{ text: 'a' }, { text: 'b' }])).toEqual({ findings: { n: 2 }, message: '/team,a,x' });
  });

  it('has no environment, and reads no file but its own', async () => {
    const { call } = await start(
      source(`prompt: async () => {
        const read = async (path) => (await import('node:fs')).readFileSync(path).length;
        const code = (given) => given.then(() => 'allowed', (error) => error.code ?? error.message);
        return {
          env: Object.keys(process.env),
          other: await code(read('/etc/hostname')),
          own: await code(read(import.meta.filename)),
          write: await code((async () => (await import('node:fs')).writeFileSync('x', ''))()),
          child: await code(import('node:child_process')),
          thread: await code(import('node:worker_threads')),
          signal: await code((async () => process.kill(process.ppid, 0))()),
        };
      }`),
    );
    expect(await call()).toEqual({
      env: [],
      other: 'ERR_ACCESS_DENIED',
      own: 'allowed',
      write: 'ERR_ACCESS_DENIED',
      child: "a plugin cannot use 'node:child_process'",
      thread: "a plugin cannot use 'node:worker_threads'",
      signal: 'EPERM',
    });
  });

  it.runIf(process.platform === 'linux')('has a lower priority in all its threads', async () => {
    const { host } = await start(source('prompt() {}'));
    const tasks = `/proc/${host.pid}/task`;
    const nice = readdirSync(tasks).map((task) => {
      const stat = readFileSync(join(tasks, task, 'stat'), 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16]);
    });
    expect(nice.length).toBeGreaterThan(3);
    expect(new Set(nice)).toEqual(new Set([10]));
  });

  it('has the priority of the gateway while it starts, so that it is ready in time on a busy machine', async () => {
    const { call } = await start(
      source('prompt: () => ({ while: first })', {
        head: "import { getPriority } from 'node:os';\nconst first = getPriority();",
      }),
    );
    expect(await call()).toEqual({ while: getPriority() });
  });

  it.runIf(process.platform === 'linux')('has the lower priority from the beginning when it is restarted', async () => {
    const { call } = await start(
      source('prompt: ([{ text }]) => { if (text === "exit") process.exit(1); return { while: first }; }', {
        head: "import { getPriority } from 'node:os';\nconst first = getPriority();",
      }),
    );
    await expect(call([{ text: 'exit' }])).rejects.toThrow();
    await expect.poll(() => call([{ text: 'x' }]).catch(() => undefined), { timeout: 15_000 }).toEqual({ while: 10 });
  });

  it('is loaded from a package with files of its own', async () => {
    const { call } = await start(
      {
        'pkg/package.json': JSON.stringify({ name: 'x', type: 'module', exports: './main.ts' }),
        'pkg/main.ts': source('prompt: (): { message: string } => ({ message: word })', {
          head: "import { word } from './word.ts';",
        }),
        'pkg/word.ts': "export const word: string = 'from another file';",
      },
      { path: 'pkg' },
    );
    expect(await call()).toEqual({ message: 'from another file' });
  });

  it.each([
    ['a syntax error', 'export default {', /SyntaxError|Expression expected|Unexpected/],
    ['no default export', 'export const a = 1;', /has no plugin/],
    ['no hooks', 'export default { name: "p" };', /no 'hooks'/],
    ['an error', 'throw new Error("broken");', /broken/],
    ['an import that is missing', 'import "nothing-of-this-name";', /nothing-of-this-name/],
    ['an exit', 'process.exit(3);', /ended with code 3/],
  ])('fails to load with %s', async (_name, code, message) => {
    await expect(start(code)).rejects.toThrow(message);
  });

  it('fails to load when it does not start in time', async () => {
    await expect(start('await new Promise(() => setInterval(() => {}, 1e6));', { initMs: 400 })).rejects.toThrow(
      'it did not start within 400 ms',
    );
    await expect(start('for (;;);', { initMs: 400 })).rejects.toThrow('it did not start within 400 ms');
  });
});

describe('a failing plugin', () => {
  it('that throws fails the call alone', async () => {
    const { call, crashes, host, lines } = await start(
      source("prompt(texts) { if (texts[0] === 'bad') throw new Error('no'); return { message: 'fine' }; }"),
    );
    const [bad, good] = await Promise.all([failure(call(['bad'])), call(['good'])]);
    expect([bad, good]).toEqual(["the hook 'prompt' threw Error", { message: 'fine' }]);
    await expect.poll(() => lines.join('\n')).toMatch(/Error: no/);
    expect(crashes).toEqual([]);
    expect(host.counters).toEqual({ calls: 2, failures: 1, restarts: 0 });
  });

  it('that never resolves fails the call at its deadline, and keeps its process', async () => {
    const { call, crashes, host } = await start(
      source("prompt: (texts) => texts[0] === 'bad' ? new Promise(() => {}) : ({ message: 'fine' })"),
    );
    const { pid } = host;
    expect(await failure(call(['bad'], { deadlineMs: 100 }))).toBe('it did not answer within 100 ms');
    expect(await call(['good'])).toEqual({ message: 'fine' });
    expect(crashes).toEqual([]);
    expect(host.pid).toBe(pid);
  });

  it('in an endless loop is ended after its deadline, and started again', async () => {
    const { call, crashed, host } = await start(
      source("prompt(texts) { if (texts[0] === 'bad') for (;;); return { message: 'fine' }; }"),
    );
    const crash = crashed();
    expect(await failure(call(['bad'], { deadlineMs: 100 }))).toBe('it did not answer within 100 ms');
    expect(await crash).toMatch('it hangs');
    expect(await call(['good'])).toEqual({ message: 'fine' });
    expect(host).toMatchObject({ health: 'ok', counters: { restarts: 1 } });
  });

  const failures: readonly (readonly [string, string, RegExp])[] = [
    ['exits', 'process.exit(7)', /ended with code 7/],
    ['kills itself', "process.kill(process.pid, 'SIGKILL')", /SIGKILL/],
    ['throws later', "setTimeout(() => { throw new Error('later'); }); return new Promise(() => {})", /code 1/],
    ['rejects unhandled', "Promise.reject(new Error('lost')); return new Promise(() => {})", /code 1/],
    ['closes the protocol', "(await import('node:fs')).closeSync(3); await new Promise(() => {})", /ended|answer/],
    ['sends garbage', "writeSync(3, 'garbage'); await new Promise(() => {})", /larger than/],
    ['sends no JSON', 'writeSync(3, Buffer.from([0, 0, 0, 2, 123, 123])); await new Promise(() => {})', /no JSON/],
    [
      'sends nested JSON',
      'const m = Buffer.from(\'{"t":"result","id":1,"value":\' + \'[\'.repeat(2e6)); const h = Buffer.alloc(4); h.writeUInt32BE(m.length); writeSync(3, Buffer.concat([h, m])); await new Promise(() => {})',
      /nested more than 64 deep/,
    ],
    [
      'sends a million values',
      'const m = Buffer.from(\'{"t":"result","id":1,"value":[\' + \'{},\'.repeat(1e6)); const h = Buffer.alloc(4); h.writeUInt32BE(m.length); writeSync(3, Buffer.concat([h, m])); await new Promise(() => {})',
      /more than 20000 values/,
    ],
    [
      'answers another call',
      "const m = Buffer.from(JSON.stringify({ t: 'result', id: 999 })); const h = Buffer.alloc(4); h.writeUInt32BE(m.length); writeSync(3, Buffer.concat([h, m])); await new Promise(() => {})",
      /answered a call that was not made/,
    ],
    [
      'sends an unknown message',
      'const m = Buffer.from(\'{"t":"hello"}\'); const h = Buffer.alloc(4); h.writeUInt32BE(m.length); writeSync(3, Buffer.concat([h, m])); await new Promise(() => {})',
      /not part of the protocol/,
    ],
  ];
  const isOfProtocol = ([name]: readonly [string, ...unknown[]]) => [/^(sends|answers)/.test(name)];

  it.each(someOf(failures, isOfProtocol, 3))('that %s is started again', async (_name, code, message) => {
    const { call, crashed } = await start(
      source(`async prompt(texts) { if (texts[0] === 'bad') { ${code} } return { message: 'fine' }; }`),
    );
    const crash = crashed();
    expect(await failure(call(['bad'], { deadlineMs: 2000 }))).toMatch(message);
    await crash;
    expect(await call(['good'])).toEqual({ message: 'fine' });
  });

  it('with a huge answer fails the call alone', async () => {
    const { call, crashes } = await start(
      source("prompt: (texts) => ({ message: texts[0] === 'bad' ? 'x'.repeat(5e6) : 'fine' })"),
    );
    expect(await failure(call(['bad']))).toMatch('the result is too large');
    expect(await call(['good'])).toEqual({ message: 'fine' });
    expect(crashes).toEqual([]);
  });

  it.each([
    ['many values', 'Object.fromEntries(Array.from({ length: 300_000 }, (_, n) => [n, 1]))', 'more than 20000 values'],
    ['nested values', "JSON.parse('['.repeat(100) + ']'.repeat(100))", 'nested more than 64 deep'],
  ])('that returns %s fails the call alone', async (_name, value, problem) => {
    const { call, crashes } = await start(
      source(`prompt: (texts) => texts[0] === 'bad' ? ({ findings: ${value} }) : ({ message: 'fine' })`),
    );
    expect(await failure(call(['bad']))).toMatch(problem);
    expect(await call(['good'])).toEqual({ message: 'fine' });
    expect(crashes).toEqual([]);
  });

  it('that is sent too much fails the call alone', async () => {
    const { call, crashes } = await start(source("prompt: () => ({ message: 'fine' })"));
    expect(await failure(call(['x'.repeat(17 * MIB)]))).toMatch('larger than');
    expect(await call()).toEqual({ message: 'fine' });
    expect(crashes).toEqual([]);
  });

  it.each([
    [
      'in Buffers',
      'for (;;) { kept.push(Buffer.alloc(8e6, 1)); await new Promise((r) => setTimeout(r)); }',
      /its limit is 192 MB/,
    ],
    ['in one loop of Buffers', 'for (;;) kept.push(Buffer.alloc(8e6, 1));', /its limit is 192 MB/],
    ['in its heap', 'for (;;) kept.push(new Array(100).fill({}));', /its limit is 192 MB|SIGABRT/],
  ])('that takes memory %s is ended', async (_name, code, message) => {
    const { call, crashed, host } = await start(
      source(
        `async prompt(texts) { if (texts[0] === 'bad') { const kept = []; ${code} } return { message: 'fine' }; }`,
      ),
      { memoryMb: 192 },
    );
    const crash = crashed();
    expect(await failure(call(['bad']))).toMatch(message);
    await crash;
    expect(await call(['good'])).toEqual({ message: 'fine' });
    expect(host.health).toBe('ok');
  });

  it('that floods its output is read slowly', async () => {
    const { call, lines } = await start(
      source("prompt(texts) { for (; texts[0] === 'bad'; ) try { writeSync(1, 'x'.repeat(99) + '\\n'); } catch {} }"),
    );
    expect(await failure(call(['bad'], { deadlineMs: 500 }))).toBe('it did not answer within 500 ms');
    expect(lines.length).toBeGreaterThan(100);
    // One read of the pipe may be larger than the budget of a second.
    expect(lines.length).toBeLessThan(3000);
  });

  it('that floods the protocol is ended', async () => {
    const { call } = await start(
      source('async prompt() { const b = Buffer.alloc(1e6, 1); for (;;) { try { writeSync(3, b); } catch {} } }'),
    );
    expect(await failure(call())).toMatch('larger than');
  });

  it('is called again after a pause that grows, with one call at a time', async () => {
    const { call, crashed, host } = await start(
      source(
        "async prompt(texts) { if (texts[0] === 'bad') process.exit(1); await new Promise((r) => setTimeout(r, 50)); return { message: 'fine' }; }",
      ),
    );
    const first = crashed();
    await failure(call(['bad']));
    await first;
    const second = crashed();
    await failure(call(['bad']));
    await second;
    expect(host.health).toBe('restarting');
    expect(await failure(call(['good']))).toMatch('it is not called after failures: its process ended with code 1');
    await expect.poll(() => host.health, { timeout: 5000 }).toBe('ok');
    const [one, other] = await Promise.all([failure(call(['good'])), failure(call(['good']))]);
    expect(one).toMatch('no failure');
    expect(other).toBe('it is tried with one call at a time after failures');
    expect(await Promise.all([failure(call(['good'])), failure(call(['good']))])).toEqual([one, one]);
  });
});

describe('calls', () => {
  it('beyond the limit fail at once', async () => {
    const { call } = await start(
      source("prompt: () => new Promise((resolve) => setTimeout(() => resolve({ message: 'fine' }), 100))"),
      { maxInFlight: 2 },
    );
    const results = await Promise.all([failure(call()), failure(call()), failure(call())]);
    expect(results[2]).toBe('it runs 2 calls already, which is the limit');
    expect(results.slice(0, 2)).toEqual(Array(2).fill('no failure: {"message":"fine"}'));
  });

  it('that are aborted fail at once and abort the hook', async () => {
    const { call } = await start(
      source(
        "prompt: (texts, { signal }) => texts[0] === 'wait' ? new Promise(() => signal.addEventListener('abort', () => { aborted = true; })) : ({ message: String(aborted) })",
        { head: 'let aborted = false;' },
      ),
    );
    const controller = new AbortController();
    const waiting = failure(call(['wait'], { signal: controller.signal }));
    controller.abort();
    expect(await waiting).toBe('the call was cancelled');
    expect(await call()).toEqual({ message: 'true' });
  });

  it('may call models, within a limit', async () => {
    const { call } = await start(
      source(`async prompt(texts, { models }) {
        const request = { model: 'm', messages: [{ role: 'user', content: 'hi' }], maxTokens: 5 };
        if (texts[0] === 'one') return (await models.chat(request)).text;
        return Promise.race(Array.from({ length: 5 }, () => models.chat(request))).catch((error) => error.message);
      }`),
    );
    const chat = async () => ({ text: 'yes', isCut: false });
    const never = () => new Promise<never>(() => {});
    expect(await call(['one'], { chat })).toBe('yes');
    expect(await call(['five'], { chat: never })).toBe('4 models are called already, which is the limit');
    expect(await call(['five'])).toBe('models cannot be called in this hook');
  });
});

describe('the end of the gateway', () => {
  it('stops the process', async () => {
    const { host, call } = await start(source('prompt: () => new Promise(() => {})'));
    const { pid = 0 } = host;
    const waiting = failure(call());
    await host.stop();
    expect(isAlive(pid)).toBe(false);
    expect(await waiting).toBe('the gateway is stopping');
    expect(await failure(call())).toBe('the gateway is stopping');
  });

  it('by SIGKILL leaves no process, also while a plugin loops', async () => {
    const { folder, remove } = pluginFolder({ 'p.ts': source('prompt() { for (;;); }') });
    open.push(remove);
    const gateway = spawn(process.execPath, [join(import.meta.dirname, 'host-of-one.ts'), join(folder, 'p.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(gateway.stdout, 'data');
    const pid = Number(String(line));
    expect(isAlive(pid)).toBe(true);
    gateway.kill('SIGKILL');
    await once(gateway, 'exit');
    await expect.poll(() => isAlive(pid), { timeout: 5000 }).toBe(false);
  });
});
