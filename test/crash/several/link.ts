/** The network between one gateway and the engine of the log: a TCP proxy that can be disturbed. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * `cut`: connections break, and new ones are refused. The others leave connections open: `hole` lets nothing pass,
 * `mute` nothing to the engine, `deaf` nothing from it, `slow` everything later.
 */
export const linkFaults = ['cut', 'hole', 'mute', 'deaf', 'slow'] as const;
export type LinkFault = (typeof linkFaults)[number];

export interface LinkState {
  readonly fault: LinkFault;
  /** Of `slow`, in each direction. */
  readonly delayMs?: number;
}

export interface Link {
  readonly port: number;
  disturb(state: LinkState): void;
  /** What waits is passed on, unless `breaks`: then the connections of that time break. */
  heal(breaks?: boolean): void;
  close(): Promise<void>;
}

interface Passing {
  readonly isOpen: boolean;
  readonly delayMs: number;
}

const OPEN: Passing = { isOpen: true, delayMs: 0 };
const BLOCKED: Passing = { isOpen: false, delayMs: 0 };

/** What passes to the engine, and from it. */
function passingOf(state: LinkState | undefined): { readonly there: Passing; readonly back: Passing } {
  switch (state?.fault) {
    case 'cut':
    case 'hole':
      return { there: BLOCKED, back: BLOCKED };
    case 'mute':
      return { there: BLOCKED, back: OPEN };
    case 'deaf':
      return { there: OPEN, back: BLOCKED };
    case 'slow': {
      const slow = { isOpen: true, delayMs: state.delayMs ?? 0 };
      return { there: slow, back: slow };
    }
    case undefined:
      return { there: OPEN, back: OPEN };
  }
}

/** One direction of one connection. Its bytes keep their order. */
class Direction {
  readonly #from: Socket;
  readonly #to: Socket;
  #passing: Passing;
  #last: Promise<void> = Promise.resolve();

  constructor(from: Socket, to: Socket, passing: Passing) {
    this.#from = from;
    this.#to = to;
    this.#passing = passing;
    from.on('data', (part: Buffer) => this.#pass(() => to.write(part) || this.#wait()));
    from.on('end', () => this.#pass(() => void to.end()));
    this.set(passing);
  }

  set(passing: Passing): void {
    this.#passing = passing;
    if (passing.isOpen) this.#from.resume();
    else this.#from.pause();
  }

  #wait(): void {
    this.#from.pause();
    this.#to.once('drain', () => {
      if (this.#passing.isOpen) this.#from.resume();
    });
  }

  #pass(write: () => unknown): void {
    const { delayMs } = this.#passing;
    const due = delayMs === 0 ? undefined : new Promise<void>((resolve) => setTimeout(resolve, delayMs));
    if (due === undefined && this.#isIdle) {
      write();
      return;
    }
    this.#waiting += 1;
    this.#last = Promise.all([this.#last, due]).then(() => {
      this.#waiting -= 1;
      if (!this.#to.destroyed) write();
    });
  }

  #waiting = 0;

  get #isIdle(): boolean {
    return this.#waiting === 0;
  }
}

interface Connection {
  readonly sockets: readonly [Socket, Socket];
  readonly there: Direction;
  readonly back: Direction;
}

/** @param targetPort of the engine, on this machine */
export async function startLink(targetPort: number, port = 0): Promise<Link> {
  const connections = new Set<Connection>();
  let state: LinkState | undefined;
  const breakAll = () => {
    for (const { sockets } of connections) for (const socket of sockets) socket.destroy();
  };
  // Without a delay of its own: small parts that wait for an acknowledgement take 40 ms each.
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    client.on('error', () => client.destroy());
    if (state?.fault === 'cut') {
      client.destroy();
      return;
    }
    const target = connect({ port: targetPort, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    const { there, back } = passingOf(state);
    const connection: Connection = {
      sockets: [client, target],
      there: new Direction(client, target, there),
      back: new Direction(target, client, back),
    };
    connections.add(connection);
    const end = () => {
      connections.delete(connection);
      client.destroy();
      target.destroy();
    };
    for (const socket of [client, target]) socket.on('error', end).on('close', end);
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  const set = (next: LinkState | undefined) => {
    state = next;
    const passing = passingOf(next);
    for (const { there, back } of connections) {
      there.set(passing.there);
      back.set(passing.back);
    }
  };
  return {
    port: (server.address() as AddressInfo).port,
    disturb(next) {
      set(next);
      if (next.fault === 'cut') breakAll();
    },
    heal(breaks = false) {
      if (breaks) breakAll();
      set(undefined);
    },
    async close() {
      breakAll();
      server.close();
      await once(server, 'close');
    },
  };
}
