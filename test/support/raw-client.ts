/** A client that writes its own bytes to the socket, and sees the answer's as they come. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** The pieces of a chunked body, as they were framed. */
  readonly chunks: readonly Buffer[];
}

const GIVE_UP_MS = 8000;

export class RawClient {
  readonly socket: Socket;
  #received = Buffer.alloc(0);
  #ended = false;
  #more = Promise.withResolvers<void>();

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (piece: Buffer) => {
      this.#received = Buffer.concat([this.#received, piece]);
      this.#wake();
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#ended = true;
      this.#wake();
    });
  }

  static async open(url: string): Promise<RawClient> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    await once(socket, 'connect');
    return new RawClient(socket);
  }

  send(bytes: string | Buffer): this {
    this.socket.write(bytes);
    return this;
  }

  /** The next answer; undefined when the connection was closed without a further one. */
  async answer(): Promise<RawAnswer | undefined> {
    const deadline = AbortSignal.timeout(GIVE_UP_MS);
    const late = once(deadline, 'abort');
    for (;;) {
      const read = readAnswer(this.#received, this.#ended);
      if (read !== undefined) {
        this.#received = this.#received.subarray(read.end);
        return read.answer;
      }
      if (this.#ended) return undefined;
      if (deadline.aborted) throw new Error(`no whole answer in ${GIVE_UP_MS} ms, only: ${this.#received}`);
      await Promise.race([this.#more.promise, late]);
    }
  }

  /** Resolves when the other side has closed the connection. */
  async closed(): Promise<void> {
    if (!this.#ended) await once(this.socket, 'close', { signal: AbortSignal.timeout(GIVE_UP_MS) });
  }

  close(): void {
    this.socket.destroy();
  }

  #wake(): void {
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }
}

/** Sends the bytes on a connection of their own; undefined when it was closed without an answer. */
export async function rawAnswer(url: string, bytes: string | Buffer): Promise<RawAnswer | undefined> {
  const client = await RawClient.open(url);
  try {
    return await client.send(bytes).answer();
  } finally {
    client.close();
  }
}

function readAnswer(bytes: Buffer, ended: boolean): { answer: RawAnswer; end: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd === -1) return undefined;
  const [statusLine = '', ...lines] = bytes.subarray(0, headEnd).toString('latin1').split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const start = headEnd + 4;
  if (headers['transfer-encoding'] === 'chunked') {
    const chunks: Buffer[] = [];
    for (let at = start; ; ) {
      const lineEnd = bytes.indexOf('\r\n', at);
      if (lineEnd === -1) return undefined;
      const size = Number.parseInt(bytes.subarray(at, lineEnd).toString('latin1'), 16);
      const from = lineEnd + 2;
      if (bytes.length < from + size + 2) return undefined;
      at = from + size + 2;
      if (size === 0) return { answer: { status, headers, chunks, body: Buffer.concat(chunks) }, end: at };
      chunks.push(bytes.subarray(from, from + size));
    }
  }
  const length = headers['content-length'];
  if (length === undefined && status !== 204 && status !== 304 && status >= 200) {
    return ended
      ? { answer: { status, headers, chunks: [], body: bytes.subarray(start) }, end: bytes.length }
      : undefined;
  }
  const end = start + Number(length ?? 0);
  if (bytes.length < end) return undefined;
  return { answer: { status, headers, chunks: [], body: bytes.subarray(start, end) }, end };
}
