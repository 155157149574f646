/** The settings of one Kafka node that is broker and controller, on this machine only. */

export interface BrokerPlace {
  /** Everything the broker stores. */
  readonly dir: string;
  readonly port: number;
  /** The node's port for itself as the controller. */
  readonly controllerPort: number;
  /** Further ports, whose clients get the address of a proxy in front of it. */
  readonly proxied?: readonly { readonly port: number; readonly proxyPort: number }[] | undefined;
}

/** Names of Kafka's settings and their values. */
export type BrokerSettings = Readonly<Record<string, string | number | boolean>>;

/** The file `server.properties`. */
export function brokerProperties(
  { dir, port, controllerPort, proxied = [] }: BrokerPlace,
  settings: BrokerSettings,
): string {
  const listeners = [
    { name: 'PLAINTEXT', port, proxyPort: port },
    ...proxied.map((one, index) => ({ name: `PROXIED${index}`, ...one })),
  ];
  const ports = listeners.map((one) => `${one.name}://127.0.0.1:${one.port}`);
  const advertised = listeners.map(({ name, proxyPort }) => `${name}://127.0.0.1:${proxyPort}`);
  const all: BrokerSettings = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${controllerPort}`,
    'controller.listener.names': 'CONTROLLER',
    listeners: [...ports, `CONTROLLER://127.0.0.1:${controllerPort}`].join(','),
    'advertised.listeners': advertised.join(','),
    'listener.security.protocol.map': [...listeners, { name: 'CONTROLLER' }]
      .map(({ name }) => `${name}:PLAINTEXT`)
      .join(','),
    'log.dirs': dir,
    ...smallNode,
    ...settings,
  };
  return Object.entries(all)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
}

/** Few threads, and internal topics that one node can hold. Their defaults want three nodes. */
const smallNode: BrokerSettings = {
  'num.network.threads': 1,
  'num.io.threads': 2,
  'background.threads': 2,
  'num.recovery.threads.per.data.dir': 1,
  'auto.create.topics.enable': false,
  'offsets.topic.num.partitions': 1,
  'offsets.topic.replication.factor': 1,
  'transaction.state.log.num.partitions': 1,
  'transaction.state.log.replication.factor': 1,
  'transaction.state.log.min.isr': 1,
  'share.coordinator.state.topic.num.partitions': 1,
  'share.coordinator.state.topic.replication.factor': 1,
  'share.coordinator.state.topic.min.isr': 1,
  // The first member of a consumer group does not wait for others.
  'group.initial.rebalance.delay.ms': 0,
  // After a kill the controller refuses the node until its last session has ended (default: 9 s).
  'broker.session.timeout.ms': 2000,
  'broker.heartbeat.interval.ms': 500,
};
