/**
 * Protects other processes from mistakes of a plugin, in the plugin's own thread: it can start no other. It is no wall
 * against a plugin that means harm. File access and child processes are denied by Node's permission model.
 */
import Module, { syncBuiltinESMExports } from 'node:module';
import type { Socket } from 'node:net';
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

/** @param pipe to the gateway */
export function restrictProcess(pipe: Socket): void {
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
