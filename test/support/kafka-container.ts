/** A Kafka broker in a container, where a container runtime runs and the jars are not there. */
import { brokerProperties } from '../../infra/kafka/broker-settings.ts';
import { freePort } from '../../infra/kafka/free-port.ts';
import { containerHost, startContainer } from './containers.ts';
import { consumerGroupsReady } from './kafka-broker.ts';

const image = 'apache/kafka:4.1.0';

/** @throws when no container runtime runs, or the broker does not start */
export async function startKafkaContainer(): Promise<{ brokers: string[]; dispose(): Promise<void> }> {
  const host = await containerHost();
  const port = await freePort();
  const container = await startContainer({
    image,
    environment: environmentOf(`${host}`, port),
    port,
    publishedPort: port,
    ready: (wait) => wait.forLogMessage('Kafka Server started'),
  });
  await consumerGroupsReady(container.address);
  return { brokers: [container.address], dispose: () => container.stop() };
}

/** The image reads its settings from variables. */
function environmentOf(host: string, port: number): Record<string, string> {
  const properties = brokerProperties(
    { dir: '/tmp/kafka', port, controllerPort: port + 1 },
    {
      listeners: `PLAINTEXT://0.0.0.0:${port},CONTROLLER://127.0.0.1:${port + 1}`,
      'advertised.listeners': `PLAINTEXT://${host}:${port}`,
    },
  );
  const lines = properties.trim().split('\n');
  return Object.fromEntries(
    lines.map((line) => {
      const [name = ''] = line.split('=', 1);
      return [`KAFKA_${name.replaceAll('.', '_').toUpperCase()}`, line.slice(name.length + 1)];
    }),
  );
}
