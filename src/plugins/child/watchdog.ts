/**
 * A thread in the process of a plugin. It ends the process when the gateway is gone, also while the plugin's own thread
 * is busy, and when the process holds more memory than it may: Buffers are outside the heap that V8 limits.
 */
import { Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

const {
  memoryBytes,
  fd,
  gatewayPid,
}: { readonly memoryBytes: number; readonly fd: number; readonly gatewayPid: number } = workerData;

const INTERVAL_MS = 50;

function end(): void {
  process.kill(process.pid, 'SIGKILL');
}

const gateway = new Socket({ fd, readable: true, writable: true });
gateway.on('error', end).on('close', end).resume();

setInterval(() => {
  // A plugin may have closed the pipe by mistake.
  if (process.ppid !== gatewayPid) end();
  const bytes = process.memoryUsage.rss();
  if (bytes <= memoryBytes) return;
  gateway.write(`memory ${bytes}\n`, end);
  // When it is not read.
  setTimeout(end, INTERVAL_MS);
}, INTERVAL_MS);

parentPort?.postMessage('ready');
