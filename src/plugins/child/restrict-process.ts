/**
 * Protects other processes from mistakes of a plugin, in the plugin's own thread: it can start no other. It is no wall
 * against a plugin that means harm. File access and child processes are denied by Node's permission model.
 */
import Module, { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import { allowedOfModule } from './allowed-modules.ts';

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

export function restrictProcess(): void {
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
  refuseUnixSockets();
  syncBuiltinESMExports();
}

/** A plugin may use the network; a socket in the file system belongs to the machine, and listening creates a file. */
function refuseUnixSockets(): void {
  for (const [prototype, name] of [
    [net.Socket.prototype, 'connect'],
    [net.Server.prototype, 'listen'],
  ] as const) {
    const original: unknown = Reflect.get(prototype, name);
    if (typeof original !== 'function') throw new Error(`node:net has no '${name}'`);
    fix(prototype, name, function (this: unknown, ...args: unknown[]): unknown {
      if (hasPath(args[0])) throw new Error(`a plugin cannot use sockets of the file system`);
      return Reflect.apply(original, this, args);
    });
  }
}

/** As `node:net` reads the first argument: options, a path, or its own list of arguments. */
function hasPath(first: unknown): boolean {
  if (Array.isArray(first)) return hasPath(first[0]);
  if (typeof first === 'string') return !(Number(first) >= 0);
  if (typeof first !== 'object' || first === null) return false;
  const path: unknown = Reflect.get(first, 'path');
  return path !== undefined && path !== null && path !== '';
}

function refusal(what: string): () => never {
  return () => {
    throw new Error(`a plugin cannot use '${what}'`);
  };
}

function fix(of: object, name: string, value: unknown): void {
  Object.defineProperty(of, name, { value, writable: false, configurable: false });
}
