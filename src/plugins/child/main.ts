/** The program in the process of a plugin: loads the plugin and runs its hooks when the gateway calls them. */
import { once } from 'node:events';
import Module, { isBuiltin, registerHooks, syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import os from 'node:os';
import { Worker } from 'node:worker_threads';
import { encodeFrame, FrameReader } from '../protocol/frames.ts';
import {
  BOUNDS_FROM_PLUGIN,
  type ChildOptions,
  type FromPlugin,
  MAX_FROM_PLUGIN,
  MAX_TO_PLUGIN,
  PROTOCOL_FD,
  type ToPlugin,
  WATCHDOG_FD,
} from '../protocol/messages.ts';
import { RunningHooks } from './running-hooks.ts';

/**
 * The built-in modules that a plugin may import. Node's permission model does not cover the others, or they start threads,
 * processes or realms without the restrictions, change Node itself, or write files.
 */
const allowed = new Set([
  ...['assert', 'assert/strict', 'async_hooks', 'buffer', 'console', 'constants', 'crypto', 'diagnostics_channel'],
  ...['dgram', 'dns', 'dns/promises', 'events', 'fs', 'fs/promises', 'http', 'http2', 'https', 'module', 'net', 'os'],
  ...['path', 'path/posix', 'path/win32', 'perf_hooks', 'process', 'punycode', 'querystring', 'readline'],
  ...['readline/promises', 'stream', 'stream/consumers', 'stream/promises', 'stream/web', 'string_decoder'],
  ...['timers', 'timers/promises', 'tls', 'tty', 'url', 'util', 'util/types', 'zlib'],
]);

/** Whether a plugin may import it: everything that is not built in, and the modules above. */
function mayImport(specifier: string): boolean {
  const name = specifier.startsWith('node:') ? specifier.slice('node:'.length) : specifier;
  return allowed.has(name) || !(specifier.startsWith('node:') || isBuiltin(specifier));
}

/** What `node:module` offers to plugins, besides the members with `_` that `require` itself needs. */
const allowedOfModule: ReadonlySet<string> = new Set([
  ...[
    'builtinModules',
    'constants',
    'createRequire',
    'findPackageJSON',
    'findSourceMap',
    'isBuiltin',
    'length',
    'Module',
  ],
  ...['name', 'prototype', 'SourceMap', 'globalPaths', 'wrap', 'wrapper'],
]);

// Protects other processes from mistakes of a plugin, in the plugin's own thread: it can start no other. It is no wall
// against a plugin that means harm. File access and child processes are denied by Node's permission model.

/** Signals of a terminal reach the whole process group: the gateway decides when a plugin ends. */
const ignoredSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** They stop the thread that ends the process with the gateway. */
const stopSignals: ReadonlySet<number | undefined> = new Set([
  ...[os.constants.signals.SIGSTOP, os.constants.signals.SIGTSTP],
  ...[os.constants.signals.SIGTTIN, os.constants.signals.SIGTTOU],
]);

/** They reach other processes, change the user, or use Node's insides; the permission model does not cover all of them. */
const refusedOfProcess = [
  ...['_debugProcess', '_debugEnd', '_getActiveHandles', '_getActiveRequests', '_linkedBinding', 'binding', 'dlopen'],
  ...['chdir', 'execve', 'initgroups', 'setegid', 'seteuid', 'setgid', 'setgroups', 'setuid'],
];

const EPERM = -1;

/** @param pipe to the gateway */
function restrictProcess(pipe: Socket): void {
  for (const signal of ignoredSignals) process.on(signal, () => {});
  // `process.kill` calls it. A plugin may end its own process, and send signals to no other.
  const send: unknown = Reflect.get(process, '_kill');
  const own = process.pid;
  const restricted = (pid: number, signal: number): unknown =>
    pid === own && !stopSignals.has(signal) && typeof send === 'function'
      ? Reflect.apply(send, process, [pid, signal])
      : EPERM;
  fix(process, '_kill', restricted);
  // Its modules would pass by the hook that refuses modules.
  fix(process, 'getBuiltinModule', undefined);
  // It writes files.
  fix(process, 'report', undefined);
  for (const name of refusedOfProcess) if (name in process) fix(process, name, refusal(`process.${name}`));
  fix(os, 'setPriority', refusal('os.setPriority'));
  for (const name of Object.getOwnPropertyNames(Module)) {
    if (!allowedOfModule.has(name) && !name.startsWith('_')) fix(Module, name, refusal(`module.${name}`));
  }
  refuseUnixSockets(pipe);
  syncBuiltinESMExports();
}

/**
 * A plugin may use the network; a socket in the file system belongs to the machine, and listening creates a file. Node
 * opens each with a handle of one class, and so does code that makes handles itself.
 * @param pipe a socket of this process that has such a handle
 */
function refuseUnixSockets(pipe: Socket): void {
  const handle: unknown = Reflect.get(pipe, '_handle');
  const prototype: unknown = typeof handle === 'object' && handle !== null ? Object.getPrototypeOf(handle) : undefined;
  for (const name of ['bind', 'connect', 'listen']) {
    if (typeof prototype !== 'object' || prototype === null || !Object.hasOwn(prototype, name)) {
      throw new Error(`the handles of this Node have no '${name}'`);
    }
    fix(prototype, name, () => {
      throw new Error('a plugin cannot use sockets of the file system');
    });
  }
}

function refusal(what: string): () => never {
  return () => {
    throw new Error(`a plugin cannot use '${what}'`);
  };
}

function fix(of: object, name: string, value: unknown): void {
  Object.defineProperty(of, name, { value, writable: false, configurable: false });
}

const { entry, api, memoryBytes, gatewayPid }: ChildOptions = JSON.parse(process.argv[2] ?? '{}');

const watchdog = new Worker(new URL('./watchdog.ts', import.meta.url), {
  workerData: { memoryBytes, fd: WATCHDOG_FD, gatewayPid },
  resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
});
// A plugin that loops or closes its pipe from the start must not come before it.
await once(watchdog, 'message');
watchdog.unref();

const gateway = new Socket({ fd: PROTOCOL_FD, readable: true, writable: true });
// The gateway is gone, or no longer wants this process.
gateway.on('error', () => process.exit(0)).on('close', () => process.exit(0));

function send(message: FromPlugin): void {
  gateway.write(encodeFrame(message, MAX_FROM_PLUGIN, BOUNDS_FROM_PLUGIN));
}

registerHooks({
  resolve(specifier, context, next) {
    if (specifier === 'chancery/plugin') return { url: api, shortCircuit: true };
    if (!mayImport(specifier)) throw new Error(`a plugin cannot use '${specifier}'`);
    return next(specifier, context);
  },
});
restrictProcess(gateway);

const hooks = await RunningHooks.of(entry, send).catch((error: unknown) => {
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  const failed: FromPlugin = { t: 'failed', error: message.slice(0, 4000) };
  gateway.write(encodeFrame(failed, MAX_FROM_PLUGIN), () => process.exit(1));
  return undefined;
});

if (hooks !== undefined) {
  const reader = new FrameReader(MAX_TO_PLUGIN);
  gateway.on('data', (bytes: Buffer) => {
    for (const message of reader.push(bytes)) hooks.take(message as ToPlugin);
  });
  send({ t: 'ready', manifest: hooks.manifest });
}
