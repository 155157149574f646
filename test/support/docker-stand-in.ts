/**
 * Docker's API on a Unix socket, as far as testcontainers calls it for one server in a container. It shows which containers a
 * test would create; what runs in them is a function. It is no proof that an image works.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { z } from 'zod';

const createRequest = z.looseObject({
  Image: z.string(),
  Env: z.array(z.string()),
  HostConfig: z.looseObject({ PortBindings: z.record(z.string(), z.array(z.object({ HostPort: z.string() }))) }),
});

export type CreatedContainer = z.infer<typeof createRequest>;

/** A running server: what it printed, and its end. */
export interface ContainerProcess {
  readonly output: string;
  end(): Promise<void>;
}

export interface DockerStandIn {
  /** A value for `DOCKER_HOST`. */
  readonly address: string;
  readonly created: readonly CreatedContainer[];
  /** Methods and paths that changed something, after `create`. */
  readonly calls: readonly string[];
  close(): Promise<void>;
}

export async function startDockerStandIn(
  run: (container: CreatedContainer) => Promise<ContainerProcess>,
): Promise<DockerStandIn> {
  const folder = mkdtempSync(join(tmpdir(), 'docker-stand-in-'));
  const socket = join(folder, 'socket');
  const created: CreatedContainer[] = [];
  const calls: string[] = [];
  let running: ContainerProcess | undefined;
  const end = async () => {
    await running?.end();
    running = undefined;
  };
  const start = async () => {
    await end();
    running = await run(last(created));
  };
  const actions: Record<string, () => Promise<void>> = { start, restart: start, stop: end, kill: end };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(request.url ?? '', 'http://docker');
    const action = pathname.split('/').at(-1) ?? '';
    if (request.method === 'POST' && pathname === '/containers/create') {
      created.push(createRequest.parse(await json(request)));
      return send(response, 201, { Id: 'c1' });
    }
    if (request.method === 'POST' || request.method === 'DELETE') {
      calls.push(`${request.method} ${pathname}`);
      await actions[action]?.();
      return send(response, 204);
    }
    if (pathname === '/info') return send(response, 200, { OperatingSystem: 'stand-in', OSType: 'linux' });
    if (pathname === '/containers/json') return send(response, 200, []);
    if (action === 'logs') return sendOutput(response, running?.output ?? '');
    if (pathname.startsWith('/images/')) return send(response, 200, {});
    send(response, 200, inspection(last(created), running !== undefined));
  }

  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => send(response, 500, { message: error.message }));
  }).listen(socket);
  await once(server, 'listening');
  return {
    address: `unix://${socket}`,
    created,
    calls,
    async close() {
      await end();
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

function last(created: readonly CreatedContainer[]): CreatedContainer {
  const container = created.at(-1);
  if (container === undefined) throw new Error('no such container');
  return container;
}

function send(response: ServerResponse, status: number, body?: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}

/** Docker's stream of two outputs: each piece has its number and length before it. */
function sendOutput(response: ServerResponse, output: string): void {
  const piece = Buffer.from(output);
  const header = Buffer.from([1, 0, 0, 0, 0, 0, 0, 0]);
  header.writeUInt32BE(piece.length, 4);
  response.writeHead(200, { 'content-type': 'application/vnd.docker.multiplexed-stream' });
  response.end(Buffer.concat([header, piece]));
}

function inspection({ HostConfig }: CreatedContainer, isRunning: boolean): Record<string, unknown> {
  const ports = Object.entries(HostConfig.PortBindings).map(([port, bound]) => [
    port,
    bound.map((one) => ({ HostIp: '0.0.0.0', ...one })),
  ]);
  return {
    Id: 'c1',
    Name: '/c1',
    Config: { Hostname: 'c1', Labels: {} },
    HostConfig,
    NetworkSettings: { Ports: Object.fromEntries(ports), Networks: {} },
    State: {
      Running: isRunning,
      Status: isRunning ? 'running' : 'exited',
      StartedAt: new Date().toISOString(),
      FinishedAt: '0001-01-01T00:00:00Z',
    },
  };
}
