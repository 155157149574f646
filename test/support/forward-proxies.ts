/** Proxies that connect every host name to 127.0.0.1 without resolving it, and record the requested targets. */
import { once } from 'node:events';
import { request as ask, createServer as createHttpServer } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export interface ForwardProxy {
  readonly port: number;
  /** `CONNECT host:port`, `GET http://…`, or for SOCKS `name host:port` and `address host:port`. */
  readonly requests: string[];
  /** Refuses what follows. */
  refuse(): void;
  close(): Promise<void>;
}

interface HttpForwardProxy extends ForwardProxy {
  /** Answers what follows with the body for the `Proxy-Authorization` of a request, and with 403 or another status. */
  deny(body: ((authorization: string | undefined) => string) | undefined, status?: number): void;
}

interface Credentials {
  readonly user: string;
  readonly password: string;
}

async function listening(server: Server): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** An HTTP proxy: CONNECT, and requests with a whole address. */
export async function startHttpProxy(credentials?: Credentials): Promise<HttpForwardProxy> {
  const requests: string[] = [];
  let isRefusing = false;
  let denial: Parameters<HttpForwardProxy['deny']>[0];
  let denialStatus = 403;
  const expected =
    credentials && `Basic ${Buffer.from(`${credentials.user}:${credentials.password}`).toString('base64')}`;
  const server = createHttpServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const { 'proxy-authorization': given, ...headers } = request.headers;
    if (given !== expected) return void response.writeHead(407).end();
    if (denial !== undefined) {
      return void response.writeHead(denialStatus, { 'content-type': 'application/json' }).end(denial(given));
    }
    const { port, pathname, search } = new URL(request.url ?? '');
    const to = { host: '127.0.0.1', port, path: pathname + search, method: request.method ?? 'GET', headers };
    const onward = ask(to, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    request.pipe(onward);
  });
  server.on('connect', (request, socket) => {
    requests.push(`CONNECT ${request.url}`);
    if (request.headers['proxy-authorization'] !== expected) {
      return void socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
    }
    if (isRefusing) return void socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    const onward = connect(Number((request.url ?? '').split(':').at(-1)), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.destroy());
    socket.on('error', () => onward.destroy());
  });
  return {
    ...(await listening(server)),
    requests,
    refuse() {
      isRefusing = true;
    },
    deny(body, status = 403) {
      denial = body;
      denialStatus = status;
    },
  };
}

/** A SOCKS 5 proxy (RFC 1928), with the user and password of RFC 1929 when they are given. */
export async function startSocksProxy(credentials?: Credentials): Promise<ForwardProxy> {
  const requests: string[] = [];
  let isRefusing = false;
  const server = createServer((socket) => void serve(socket).catch(() => socket.destroy()));

  async function serve(socket: Socket): Promise<void> {
    const read = reader(socket);
    const [, methods = 0] = await read(2);
    const offered = await read(methods);
    const method = credentials === undefined ? 0 : 2;
    if (!offered.includes(method)) return void socket.end(Buffer.from([5, 0xff]));
    socket.write(Buffer.from([5, method]));
    if (credentials !== undefined) {
      const [, userLength = 0] = await read(2);
      const user = (await read(userLength)).toString();
      const [passwordLength = 0] = await read(1);
      const password = (await read(passwordLength)).toString();
      const isRight = user === credentials.user && password === credentials.password;
      socket.write(Buffer.from([1, isRight ? 0 : 1]));
      if (!isRight) return void socket.end();
    }
    const [, command, , type] = await read(4);
    const host =
      type === 3 ? (await read((await read(1))[0] ?? 0)).toString() : [...(await read(type === 4 ? 16 : 4))].join('.');
    const port = (await read(2)).readUInt16BE();
    requests.push(`${type === 3 ? 'name' : 'address'} ${host}:${port}`);
    const reply = (code: number) => Buffer.from([5, code, 0, 1, 127, 0, 0, 1, 0, 0]);
    if (isRefusing || command !== 1) return void socket.end(reply(2));
    const onward = connect(port, '127.0.0.1', () => {
      socket.write(reply(0));
      onward.pipe(socket).pipe(onward);
    });
    onward.on('error', () => socket.end(reply(5)));
  }

  return {
    ...(await listening(server)),
    requests,
    refuse() {
      isRefusing = true;
    },
  };
}

/** Reads exactly so many bytes; what follows them stays for the next reader. */
function reader(socket: Socket): (bytes: number) => Promise<Buffer> {
  return async (bytes) => {
    for (;;) {
      const piece: Buffer | null = bytes === 0 ? Buffer.alloc(0) : socket.read(bytes);
      if (piece !== null) return piece;
      if (socket.readableEnded) throw new Error('the client has left');
      await once(socket, 'readable');
    }
  };
}
