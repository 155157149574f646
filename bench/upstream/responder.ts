/**
 * An upstream that answers after a delay, or at a pace, in a process of its own: raw sockets and canned bytes. The path
 * selects it: `/json/…` and `/sse/…` at once, `/wait-60/…` (JSON) after 60 ms, `/pace-25/…` and `/pace-25x200/…` as a
 * stream of 30 or 200 words, 25 ms apart, each word replaced by the time at which it was sent.
 *
 *   node bench/upstream/responder.ts <port>
 */
import { createServer, type Socket } from 'node:net';
import { chatEvents, chatJson, chatSse, modelsJson, STAMP_DIGITS, STAMP_MARK, WORDS } from './canned.ts';

const HEAD_END = Buffer.from('\r\n\r\n');
const json = (body: string) =>
  Buffer.from(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`;
const LAST_CHUNK = '0\r\n\r\n';

interface Piece {
  readonly bytes: Buffer;
  /** Where the digits of the time begin; -1 without one. */
  readonly stampAt: number;
}

interface Behaviour {
  readonly delayMs: number;
  readonly paceMs: number;
  /** The first leaves after `delayMs`, each other one `paceMs` after the one before. */
  readonly pieces: readonly Piece[];
}

const MODELS: Behaviour = { delayMs: 0, paceMs: 0, pieces: [piece(json(modelsJson))] };
const NOT_FOUND: Behaviour = {
  delayMs: 0,
  paceMs: 0,
  pieces: [piece(Buffer.from('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n'))],
};
const behaviours = new Map<string, Behaviour>();

function piece(bytes: Buffer): Piece {
  const mark = bytes.indexOf(STAMP_MARK);
  return { bytes, stampAt: mark === -1 ? -1 : mark + STAMP_MARK.length };
}

function behaviourAt(path: string): Behaviour {
  const known = behaviours.get(path);
  if (known !== undefined) return known;
  const made = behaviourFor(path);
  behaviours.set(path, made);
  return made;
}

function behaviourFor(path: string): Behaviour {
  const [, kind = '', endpoint = ''] = /^\/([^/]+)\/v1\/(.*)$/.exec(path) ?? [];
  if (endpoint === 'models') return MODELS;
  if (endpoint !== 'chat/completions') return NOT_FOUND;
  if (kind === 'json') return { delayMs: 0, paceMs: 0, pieces: [piece(json(chatJson))] };
  if (kind === 'sse') {
    const whole = Buffer.from(
      `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${chatSse.length}\r\n\r\n${chatSse}`,
    );
    return { delayMs: 0, paceMs: 0, pieces: [piece(whole)] };
  }
  const wait = /^wait-(\d+)$/.exec(kind)?.[1];
  if (wait !== undefined) return { delayMs: Number(wait), paceMs: 0, pieces: [piece(json(chatJson))] };
  const [, pace, count = String(WORDS)] = /^pace-(\d+)(?:x(\d+))?$/.exec(kind) ?? [];
  if (pace === undefined) return NOT_FOUND;
  const events = chatEvents({ stamped: true, count: Number(count) });
  // The role and the first word are sent together, and so are the finish, the usage and the end.
  const texts = [
    STREAM_HEAD + events.slice(0, 2).map(chunk).join(''),
    ...events.slice(2, -3).map(chunk),
    events.slice(-3).map(chunk).join('') + LAST_CHUNK,
  ];
  return { delayMs: 0, paceMs: Number(pace), pieces: texts.map((text) => piece(Buffer.from(text))) };
}

/** A copy with the time in it, in microseconds of the clock that all processes of the machine share. */
function stamped({ bytes, stampAt }: Piece): Buffer {
  const copy = Buffer.from(bytes);
  copy.write(String(process.hrtime.bigint() / 1000n).padStart(STAMP_DIGITS, '0'), stampAt, 'latin1');
  return copy;
}

function write(socket: Socket, piece: Piece): void {
  socket.write(piece.stampAt === -1 ? piece.bytes : stamped(piece));
}

function answer(socket: Socket, { delayMs, paceMs, pieces }: Behaviour): void {
  const [first] = pieces;
  if (first === undefined) return;
  if (pieces.length === 1) {
    if (delayMs === 0) write(socket, first);
    else setTimeout(() => socket.writable && write(socket, first), delayMs);
    return;
  }
  write(socket, first);
  const began = performance.now();
  let next = 1;
  const send = () => {
    const piece = pieces[next];
    if (!socket.writable || piece === undefined) return;
    write(socket, piece);
    next++;
    // From the beginning, so that a late timer does not make the stream longer.
    if (next < pieces.length) setTimeout(send, Math.max(1, began + next * paceMs - performance.now()));
  };
  setTimeout(send, paceMs);
}

/** One request after the other, as clients without pipelining send them. */
function serve(socket: Socket): void {
  let rest: Buffer | undefined;
  socket.setNoDelay(true);
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    const buffer = rest === undefined ? bytes : Buffer.concat([rest, bytes]);
    rest = buffer;
    const headEnd = buffer.indexOf(HEAD_END);
    if (headEnd === -1) return;
    const head = buffer.toString('latin1', 0, headEnd);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (buffer.length < headEnd + HEAD_END.length + length) return;
    rest = undefined;
    const from = head.indexOf(' ') + 1;
    answer(socket, behaviourAt(head.slice(from, head.indexOf(' ', from))));
  });
}

const port = Number(process.argv[2] ?? 4011);
createServer(serve).listen({ port, host: '127.0.0.1', backlog: 4096 }, () => {
  console.log(`responder listening on http://127.0.0.1:${port}`);
});
process.once('SIGTERM', () => process.exit(0));
