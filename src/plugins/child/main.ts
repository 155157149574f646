/** The program in the process of a plugin: loads the plugin and runs its hooks when the gateway calls them. */
import { once } from 'node:events';
import { registerHooks } from 'node:module';
import { Socket } from 'node:net';
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
import { mayImport } from './allowed-modules.ts';
import { restrictProcess } from './restrict-process.ts';
import { RunningHooks } from './running-hooks.ts';

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
