/** A proxy in front of several gateways: each request or WebSocket goes to the next one, as behind a load balancer without affinity. */
import { once } from 'node:events';
import { createServer, request as sendRequest } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

export interface AlternatingProxy {
  readonly url: string;
  close(): Promise<void>;
}

/** @param urls of the gateways */
export async function startAlternatingProxy(urls: readonly string[]): Promise<AlternatingProxy> {
  let next = 0;
  const server = createServer((incoming, reply) => {
    const url = new URL(urls[next++ % urls.length] ?? '');
    const { method, url: path, rawHeaders } = incoming;
    const forwarded = sendRequest({ host: url.hostname, port: url.port, method, path, headers: pairsOf(rawHeaders) });
    forwarded.on('response', (answer) => {
      reply.writeHead(answer.statusCode ?? 502, answer.statusMessage, pairsOf(answer.rawHeaders));
      reply.flushHeaders();
      answer.pipe(reply);
      answer.on('error', () => reply.destroy());
      answer.on('aborted', () => reply.destroy());
    });
    forwarded.on('error', () => reply.destroy());
    reply.on('close', () => forwarded.destroy());
    incoming.pipe(forwarded);
  });
  const upgraded = new Set<Duplex>();
  server.on('upgrade', ({ method, url: path, rawHeaders }, client, head) => {
    const { hostname, port } = new URL(urls[next++ % urls.length] ?? '');
    const gateway = connect(Number(port), hostname);
    const lines = rawHeaders.flatMap((text, at) => (at % 2 === 0 ? [`${text}: ${rawHeaders[at + 1]}`] : []));
    gateway.write(`${[`${method} ${path} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`);
    gateway.write(head);
    gateway.pipe(client).pipe(gateway);
    for (const [one, other] of [
      [gateway, client],
      [client, gateway],
    ] as const) {
      upgraded.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        upgraded.delete(one);
        other.destroy();
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const one of upgraded) one.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Raw headers by name, with every value of those that come several times. */
function pairsOf(raw: readonly string[]): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = {};
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = (raw[at] ?? '').toLowerCase();
    if (name === 'connection' || name === 'keep-alive') continue;
    const value = raw[at + 1] ?? '';
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}
