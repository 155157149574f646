/** A Kafka broker in a process of its own. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BrokerPlace, type BrokerSettings, brokerProperties } from './broker-settings.ts';
import { isFree } from './free-port.ts';
import { liveBrokers } from './live-brokers.ts';

export interface BrokerOptions extends BrokerPlace {
  readonly classPath: string;
  /** Beside those of `broker-settings.ts`. */
  readonly settings?: BrokerSettings;
}

export interface BrokerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface BrokerProcess {
  readonly exited: Promise<BrokerExit>;
  kill(signal: NodeJS.Signals): void;
}

const java = ['-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Djava.awt.headless=true'];
const logging = ['defaultLogLevel=warn', 'showDateTime=true', "dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSXXX"].map(
  (setting) => `-Dorg.slf4j.simpleLogger.${setting}`,
);
const READY_WITHIN_MS = 60_000;
const POLL_MS = 50;

/** Where a broker prints what it logs. */
export const brokerOutput = (dir: string) => join(dir, 'broker.log');

/**
 * Starts a broker on `dir`, which it formats when it is new; resolves when the broker serves requests. The broker is
 * killed when this process ends without stopping it.
 * @throws with the end of what the broker printed when it does not start
 */
export async function startBroker(options: BrokerOptions): Promise<BrokerProcess> {
  const { dir, classPath, port } = options;
  if (!(await isFree(port))) throw new Error(`Kafka cannot be started: port ${port} of 127.0.0.1 is in use`);
  mkdirSync(dir, { recursive: true });
  const properties = join(dir, 'server.properties');
  writeFileSync(properties, brokerProperties(options, options.settings ?? {}));
  const command = [...java, ...logging, '-cp', classPath];
  if (!existsSync(join(dir, 'meta.properties'))) format(dir, command, properties);
  const output = openSync(brokerOutput(dir), 'a');
  const child = spawn('java', [...command, 'kafka.Kafka', properties], { stdio: ['ignore', output, output] });
  closeSync(output);
  const broker = brokerProcess(child);
  await untilReady(broker, dir, port);
  return broker;
}

function format(dir: string, command: readonly string[], properties: string): void {
  const id = Buffer.from(crypto.randomUUID().replaceAll('-', ''), 'hex').toString('base64url');
  // In one word: an id may begin with a dash.
  const tool = ['kafka.tools.StorageTool', 'format', `--cluster-id=${id}`, '-c', properties];
  const { status, stdout, stderr } = spawnSync('java', [...command, ...tool], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`Kafka's folder ${dir} could not be formatted:\n${stdout}${stderr}`);
}

function brokerProcess(child: ChildProcess): BrokerProcess {
  const exited = Promise.withResolvers<BrokerExit>();
  const watch = endsWithThisProcess(child);
  child.once('error', () => exited.resolve({ code: 1, signal: null }));
  child.once('exit', (code, signal) => {
    watch.kill('SIGKILL');
    exited.resolve({ code, signal });
  });
  return { exited: exited.promise, kill: (signal) => void child.kill(signal) };
}

/** Kills the broker when the pipe to this process closes: a killed process cannot end its children itself. */
function endsWithThisProcess({ pid }: ChildProcess): ChildProcess {
  const script = `trap '' INT TERM HUP; while read -r _; do :; done; kill -9 ${pid ?? ''} 2> /dev/null`;
  return spawn('sh', ['-c', script], { stdio: ['pipe', 'ignore', 'ignore'] });
}

async function untilReady(broker: BrokerProcess, dir: string, port: number): Promise<void> {
  const ended = broker.exited.then(() => 'ended' as const);
  const deadline = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const brokers = await Promise.race([liveBrokers(port, 1000), ended]);
    if (brokers === 'ended') throw new Error(`the Kafka broker ended:\n${endOfOutput(dir)}`);
    if (brokers > 0) return;
    if (performance.now() > deadline) {
      broker.kill('SIGKILL');
      await broker.exited;
      throw new Error(`the Kafka broker was not ready within ${READY_WITHIN_MS} ms:\n${endOfOutput(dir)}`);
    }
    await sleep(POLL_MS);
  }
}

const SHOWN_CHARACTERS = 4000;

function endOfOutput(dir: string): string {
  return readFileSync(brokerOutput(dir), 'utf8').slice(-SHOWN_CHARACTERS);
}
