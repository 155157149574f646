/** The broker of a measurement: one on this machine (`npm run kafka:prepare` fetches it), or those of KAFKA_BROKERS. */
import { join } from 'node:path';
import { startBroker } from '../../infra/kafka/broker.ts';
import { freePort } from '../../infra/kafka/free-port.ts';
import { kafkaJars } from '../../infra/kafka/jars.ts';

export interface BenchBroker {
  /** As in LOG_URL. */
  readonly brokers: string;
  stop(): Promise<void>;
}

/** @param workDir where the data of a broker on this machine is */
export async function brokerForBench(workDir: string): Promise<BenchBroker> {
  const given = process.env['KAFKA_BROKERS'] ?? '';
  if (given !== '') return { brokers: given, stop: async () => {} };
  const jars = kafkaJars();
  if ('missing' in jars) throw new Error(jars.missing);
  const port = await freePort();
  const started = await startBroker({ ...jars, dir: join(workDir, 'kafka'), port, controllerPort: await freePort() });
  return {
    brokers: `127.0.0.1:${port}`,
    async stop() {
      started.kill('SIGTERM');
      await started.exited;
    },
  };
}
