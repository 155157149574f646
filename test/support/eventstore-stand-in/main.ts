/**
 * The stand-in as a process of its own:
 * `main.ts --data <file> [--port <n>] [--leader-port <n>] [--users '{"admin":"…"}'] [--cert <file> --key <file>]`.
 * Prints `{"port":…}` when it listens. Faults are set by messages of the parent process, each of which is answered.
 */
import { readFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { FaultSettings } from './faults.ts';
import { runStandIn } from './server.ts';

/** What the parent process sends. */
export type StandInMessage = { readonly faults: FaultSettings } | { readonly do: 'disconnect' | 'dropSubscriptions' };

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: { data: text, port: text, 'leader-port': text, users: text, cert: text, key: text },
});
if (values.data === undefined) throw new Error('--data names the file with the events');

const server = await runStandIn({
  data: values.data,
  port: Number(values.port ?? 0),
  leaderPort: values['leader-port'] === undefined ? undefined : Number(values['leader-port']),
  users: values.users === undefined ? undefined : JSON.parse(values.users),
  tls:
    values.cert === undefined || values.key === undefined
      ? undefined
      : { cert: readFileSync(values.cert, 'utf8'), key: readFileSync(values.key, 'utf8') },
});

process.on('message', (message: StandInMessage) => {
  if ('faults' in message) server.setFaults(message.faults);
  else server[message.do]();
  process.send?.({ done: true });
});
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => void server.stop().then(() => process.exit(0)));
console.log(JSON.stringify({ port: server.port }));
