/**
 * `npm run kafka -- [--port 9092] [--data data/kafka]`: a Kafka broker of one node in the foreground, on this machine
 * only. Fetches its jars first unless they are there.
 */
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { brokerOutput, startBroker } from './broker.ts';
import { freePort } from './free-port.ts';
import { prepareKafka } from './jars.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '9092' },
    data: { type: 'string', default: join('data', 'kafka') },
  },
});

const port = Number(values.port);
if (!Number.isInteger(port) || port < 1 || port > 65_535) fail(`--port: ${values.port} is no port`);
const jars = await prepareKafka((line) => console.log(line));
if ('missing' in jars) fail(`Kafka cannot be started: ${jars.missing}`);
const dir = resolve(values.data);
const broker = await startBroker({ ...jars, dir, port, controllerPort: await freePort() }).catch((error: Error) =>
  fail(error.message),
);
console.log(`Kafka serves 127.0.0.1:${port}; data and broker.log are in ${dir}. Stop it with Ctrl-C.`);
console.log(`LOG_URL=kafka://127.0.0.1:${port}/chancery`);

let stopping = false;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (!stopping) broker.kill('SIGTERM');
    stopping = true;
  });
}
const { code, signal } = await broker.exited;
if (!stopping) console.error(`Kafka ended (${code ?? signal}); ${brokerOutput(dir)} has the reason`);
process.exit(stopping ? 0 : 1);

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
