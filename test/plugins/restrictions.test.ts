/** What a plugin cannot do by mistake: reach other processes, other files, or a thread without the restrictions. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { getPriority } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { PluginHost } from '../../src/plugins/host/plugin-host.ts';
import { locatePlugin } from '../../src/plugins/locate.ts';
import { isAlive, pluginFolder, source } from './plugin-files.ts';

const context = { requestId: 'r', userPath: '/team', model: 'm', provider: 'p', labels: [] };

let open: (() => Promise<void> | void)[] = [];
let socketFolder = '';

beforeEach(() => {
  const { folder, remove } = pluginFolder({});
  socketFolder = folder;
  open = [remove];
});

afterEach(async () => {
  for (const close of open.reverse()) await close();
});

/** The result of each attempt: its value as text, or the message of its error. */
async function attempts(code: Readonly<Record<string, string>>, head = ''): Promise<unknown> {
  const entries = Object.entries(code).map(
    ([name, body]) =>
      `['${name}', await (async () => { ${body} })().then((value) => 'allowed: ' + value, (error) => error.message)]`,
  );
  const { folder, remove } = pluginFolder({
    'pkg/package.json': JSON.stringify({ name: 'x', type: 'module', exports: './main.ts' }),
    'pkg/main.ts': source(`prompt: async () => Object.fromEntries([${entries.join(',\n')}])`, {
      head: `import * as module from 'node:module'; import net from 'node:net'; import os from 'node:os';\nconst require = module.createRequire(import.meta.url); ${head}`,
    }),
    'pkg/common.cjs': 'exports.Module = module.constructor; exports.load = (name) => require(name);',
    'pkg/self.cjs': 'exports.word = "own";',
  });
  open.push(remove);
  const host = new PluginHost({
    ...(await locatePlugin({ path: 'pkg' }, folder)),
    ...{ memoryBytes: 256 * 1024 * 1024, initMs: 10_000, graceMs: 300, maxInFlight: 1 },
    output() {},
    crashed() {},
  });
  open.push(() => host.stop());
  await host.start();
  return host.call({ hook: 'prompt', input: [], context, config: {}, deadlineMs: 5000 });
}

const refused = (what: string) => `a plugin cannot use '${what}'`;

describe('a plugin', () => {
  it('cannot load other modules in any way', async () => {
    const names = [
      ...['node:sqlite', 'node:worker_threads', 'node:child_process', 'node:cluster', 'node:inspector', 'node:v8'],
      ...['node:vm', 'node:repl', 'node:test', 'node:test/reporters', 'node:sea', 'node:wasi', 'node:trace_events'],
      'worker_threads',
    ];
    const ways = (name: string) => [
      [`import ${name}`, `await import('${name}')`, refused(name)],
      [`require ${name}`, `require('${name}')`, refused(name)],
      [`common ${name}`, `require('./common.cjs').load('${name}')`, refused(name)],
      [`moduleLoad ${name}`, `require('./common.cjs').Module._load('${name}')`, refused(name)],
      [`data ${name}`, `await import('data:text/javascript,' + encodeURIComponent("import '${name}'"))`, refused(name)],
      [
        `builtin ${name}`,
        `if (process.getBuiltinModule('${name}') !== undefined) return 'loaded'; throw new Error('none')`,
        'process.getBuiltinModule is not a function',
      ],
    ];
    const all = names.flatMap(ways);
    expect(await attempts(Object.fromEntries(all.map(([way, code]) => [way, code])))).toEqual(
      Object.fromEntries(all.map(([way, , message]) => [way, message])),
    );
  });

  it('can use the modules for computing and for the network', async () => {
    const names = ['node:fs', 'crypto', 'node:http', 'node:zlib', 'node:util/types', 'node:async_hooks', 'stream/web'];
    const code = names.map((name) => [name, `await import('${name}'); require('${name}')`]);
    expect(await attempts({ ...Object.fromEntries(code), own: "return require('./self.cjs').word" })).toEqual({
      ...Object.fromEntries(names.map((name) => [name, 'allowed: undefined'])),
      own: 'allowed: own',
    });
  });

  it('cannot add hooks that load modules, which run in a thread of their own', async () => {
    const url = "'data:text/javascript,'";
    expect(
      await attempts({
        namespace: `module.register(${url})`,
        default: `module.default.register(${url})`,
        hooks: 'module.registerHooks({ resolve: (name) => ({ url: name, shortCircuit: true }) })',
        common: `require('./common.cjs').Module.register(${url})`,
      }),
    ).toEqual({
      ...{ namespace: refused('module.register'), default: refused('module.register') },
      ...{ hooks: refused('module.registerHooks'), common: refused('module.register') },
    });
  });

  it('cannot reach other processes, nor change its user or folder', async () => {
    const names = ['_debugProcess', '_debugEnd', 'binding', '_linkedBinding', 'dlopen', 'chdir', 'execve', 'setuid'];
    const calls = names.map((name) => [name, `process.${name}(process.ppid)`]);
    const before = getPriority();
    expect(
      await attempts({
        ...Object.fromEntries(calls),
        priority: 'os.setPriority(process.ppid, 19)',
        signal: "process.kill(process.ppid, 'SIGUSR2')",
        stop: "process.kill(process.pid, 'SIGSTOP')",
        group: "process.kill(0, 'SIGTERM')",
        report: 'process.report.writeReport()',
      }),
    ).toEqual({
      ...Object.fromEntries(names.map((name) => [name, refused(`process.${name}`)])),
      priority: refused('os.setPriority'),
      ...{ signal: 'kill EPERM', stop: 'kill EPERM', group: 'kill EPERM' },
      report: expect.stringMatching('undefined'),
    });
    expect(getPriority()).toBe(before);
  });

  it('cannot use sockets of the file system, but those of the network', async () => {
    const path = join(socketFolder, 's.sock');
    const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    open.push(() => void server.close());
    await once(server, 'listening');
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const no = 'a plugin cannot use sockets of the file system';
    const connected = (socket: string) =>
      `const s = ${socket}; await new Promise((r, j) => s.on('connect', r).on('error', j)); s.destroy()`;
    // The first read finds no path, later ones do.
    const getter = `{ port: 0, get path() { return (globalThis.reads = (globalThis.reads ?? 0) + 1) % 3 === 1 ? undefined : '${path}'; } }`;
    const pipe = 'const Pipe = process.stdout._handle.constructor;';
    expect(
      await attempts({
        listen: `net.createServer().listen('${path}')`,
        listenOptions: `net.createServer().listen({ path: '${path}' })`,
        connect: `net.connect('${path}')`,
        connectOptions: `net.createConnection({ path: '${path}' })`,
        socket: `new net.Socket().connect('${path}')`,
        request: `(await import('node:http')).get({ socketPath: '${path}' })`,
        getter: `net.createServer().listen(${getter})`,
        getterOfConnect: `net.connect(${getter})`,
        serverHandle: `net._createServerHandle('${path}', -1, -1)`,
        abstractName: `net._createServerHandle('\\0abstract', -1, -1)`,
        constructorOfHandle: `${pipe} new Pipe(1).bind('${path}')`,
        listenOfHandle: `${pipe} new Pipe(1).listen(1)`,
        connectOfHandle: `${pipe} new Pipe(0).connect({}, '${path}')`,
        subclass: `${pipe} new (class extends Pipe {})(1).bind('${path}')`,
        restored: `${pipe} delete Pipe.prototype.bind`,
        replaced: `${pipe} Object.defineProperty(Pipe.prototype, 'bind', { value: () => 0 })`,
        network: connected(`net.connect(${port}, '127.0.0.1')`),
        options: connected(`net.connect({ port: ${port}, host: '127.0.0.1' })`),
        server: "const s = net.createServer(); await new Promise((r) => s.listen(0, '127.0.0.1', r)); s.close()",
      }),
    ).toEqual({
      ...{ serverHandle: no, abstractName: no, constructorOfHandle: no, listenOfHandle: no, connectOfHandle: no },
      ...{ subclass: no, getter: expect.any(String), getterOfConnect: expect.any(String) },
      restored: expect.stringContaining('Cannot delete'),
      replaced: expect.stringContaining('Cannot redefine'),
      ...{ listen: no, listenOptions: no, connect: no, connectOptions: no, socket: no, request: no },
      ...{ network: 'allowed: undefined', options: 'allowed: undefined', server: 'allowed: undefined' },
    });
    expect(existsSync(path)).toBe(false);
  });
});

describe('the gateway by SIGKILL', () => {
  it.each([
    ['closed the pipe of the watchdog and loops', 'closeSync(4); for (;;);'],
    [
      'closed every file descriptor and loops',
      'for (let fd = 3; fd < 64; fd++) try { closeSync(fd); } catch {} for (;;);',
    ],
    ['tried to stop itself', "try { process.kill(process.pid, 'SIGSTOP'); } catch {} for (;;);"],
  ])('leaves no process of a plugin that %s', async (_name, code) => {
    const { folder, remove } = pluginFolder({
      'p.ts': source(`prompt() { console.error('called'); ${code} }`, { head: "import { closeSync } from 'node:fs';" }),
    });
    open.push(remove);
    const gateway = spawn(process.execPath, [join(import.meta.dirname, 'host-of-one.ts'), join(folder, 'p.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface(gateway.stdout)[Symbol.asyncIterator]();
    const pid = Number((await lines.next()).value);
    open.push(() => {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
    });
    expect(isAlive(pid)).toBe(true);
    expect((await lines.next()).value).toBe('called');
    gateway.kill('SIGKILL');
    await once(gateway, 'exit');
    await expect.poll(() => isAlive(pid), { timeout: 5000 }).toBe(false);
  });
});
