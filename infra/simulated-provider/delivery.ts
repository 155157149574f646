/** Sends an answer, in time or with the selected faults. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type Dialect, OPENAI, type Trouble } from './dialect.ts';
import type { Fault, FaultPlan } from './fault.ts';
import { objectIn } from './json.ts';
import type { BytesReply, Frame, JsonReply, Reply, StreamReply } from './reply.ts';

export interface Delivery {
  readonly response: ServerResponse;
  readonly fault: Fault | undefined;
  readonly dialect: Dialect;
  readonly plan: FaultPlan;
  /** Aborted when the client leaves or the server closes. */
  readonly signal: AbortSignal;
  /** Pause between frames, when the fault sets none. */
  readonly paceMs: number;
  /** Called after every frame that was handed to the socket. */
  onFrame(): void;
}

/** Resolves when there is nothing more to write. Rejects with an abort error when the signal is aborted in a wait. */
export async function deliver(reply: Reply, delivery: Delivery): Promise<void> {
  const { response, fault, dialect, signal } = delivery;
  if (fault === undefined && 'json' in reply)
    return sendBody(response, reply.status, reply.headers ?? {}, JSON.stringify(reply.json));
  if (fault?.headerDelayMs) await delay(fault.headerDelayMs, undefined, { signal });
  if (fault?.hang) await once(signal, 'abort');
  if (signal.aborted) return;
  const failed = failure(fault, 'frames' in reply, dialect);
  if (failed !== undefined)
    return sendBody(response, failed.status, { ...failed.headers, ...fault?.headers }, failed.body);
  return 'frames' in reply ? deliverStream(reply, delivery) : deliverWhole(reply, delivery);
}

/** A string leaves in the same write as its headers. */
function sendBody(response: ServerResponse, status: number, headers: Record<string, string>, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    ...headers,
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

interface Failed {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

/** The error answer of `status` and `errorIn200`; a stream gets the latter as its only frame. */
function failure(fault: Fault | undefined, streaming: boolean, dialect: Dialect): Failed | undefined {
  if (fault?.status !== undefined) {
    const { status } = fault;
    const retry: Record<string, string> =
      fault.retryAfter === undefined ? {} : { 'retry-after': String(fault.retryAfter) };
    const type = {
      json: 'application/json',
      'numeric-code': 'application/json',
      html: 'text/html',
      text: 'text/plain',
      empty: 'text/plain',
    };
    return {
      status,
      headers: { 'content-type': type[fault.body ?? 'json'], ...retry, ...fault.headers },
      body: errorBody(fault, status, dialect),
    };
  }
  if (fault?.errorIn200) {
    const trouble = troubleOf(fault, 500);
    if (streaming)
      return { status: 200, headers: { 'content-type': dialect.streamType }, body: dialect.errorFrame(trouble) };
    return { status: 200, headers: {}, body: JSON.stringify(dialect.errorBody(trouble)) };
  }
  return undefined;
}

function errorBody(fault: Fault, status: number, dialect: Dialect): string {
  const trouble = troubleOf(fault, status);
  switch (fault.body) {
    case 'html':
      return `<html><head><title>${status}</title></head><body><h1>${status}</h1><p>The server is unwell.</p></body></html>`;
    case 'text':
      return trouble.message;
    case 'empty':
      return '';
    case 'numeric-code': {
      const { error } = OPENAI.errorBody(trouble);
      const { message, type } = objectIn(error);
      return JSON.stringify({ error: { code: status, message, type } });
    }
    default:
      return JSON.stringify(dialect.errorBody(trouble));
  }
}

function troubleOf(fault: Fault, status: number): Trouble {
  return {
    status,
    message: fault.message ?? `simulated error ${status}`,
    code: fault.code ?? (status === 429 ? 'rate_limit_exceeded' : null),
    ...(fault.type === undefined ? {} : { type: fault.type }),
  };
}

/** In one piece; with a paced fault in as many pieces as the fault sets, and without `Content-Length`. */
async function deliverWhole(reply: JsonReply | BytesReply, delivery: Delivery): Promise<void> {
  const { response, fault, signal } = delivery;
  const bytes = bytesOf(reply, fault);
  const usual = 'bytes' in reply ? reply.contentType : 'application/json';
  const headers = { 'content-type': fault?.contentType ?? usual, ...reply.headers, ...fault?.headers };
  const inPieces = 'bytes' in reply && fault?.chunks !== undefined;
  response.writeHead(reply.status, inPieces ? headers : { ...headers, 'content-length': bytes.length });
  if (fault?.firstByteDelayMs) {
    response.flushHeaders();
    await delay(fault.firstByteDelayMs, undefined, { signal });
  }
  if (inPieces) return write(piecesOf(bytes, fault.chunks ?? 1), delivery);
  if (fault?.cutAfterChunks === undefined) {
    response.end(bytes);
    return;
  }
  await new Promise((written) => response.write(bytes.subarray(0, bytes.length >> 1), written));
  response.socket?.destroy();
}

function* piecesOf(bytes: Buffer, count: number): Generator<BytesFrame> {
  const size = Math.ceil(bytes.length / count);
  for (let start = 0; start < bytes.length; start += size) {
    yield { kind: 'delta', text: bytes.subarray(start, start + size) };
  }
}

function bytesOf(reply: JsonReply | BytesReply, fault: Fault | undefined): Buffer {
  if (fault?.garbage) return Buffer.from('{"id": "broken", "choices": [');
  if ('bytes' in reply) return reply.bytes;
  return Buffer.from(JSON.stringify(padded(reply.json, fault?.oversizedBytes)));
}

function padded(json: object, size: number | undefined): object {
  return size === undefined ? json : { ...json, padding: 'x'.repeat(size) };
}

async function deliverStream({ frames, headers }: StreamReply, delivery: Delivery): Promise<void> {
  const { response, fault, dialect, signal } = delivery;
  response.writeHead(200, {
    'content-type': fault?.contentType ?? dialect.streamType,
    'cache-control': 'no-cache',
    ...headers,
    ...fault?.headers,
  });
  if (fault?.firstByteDelayMs) {
    response.flushHeaders();
    await delay(fault.firstByteDelayMs, undefined, { signal });
  }
  if (fault?.coalesce) {
    const all = await Array.fromAsync(faulty(frames, fault, dialect), (frame) => frame.text);
    return void response.end(all.join(''));
  }
  return write(fault === undefined ? frames : faulty(frames, fault, dialect), delivery);
}

/** A piece of a body that is not text. */
interface BytesFrame {
  readonly kind: 'delta';
  readonly text: Buffer;
}

type Frames = Iterable<Frame | BytesFrame> | AsyncIterable<Frame | BytesFrame>;

async function write(frames: Frames, delivery: Delivery): Promise<void> {
  const { response, fault, plan, signal } = delivery;
  const paceMs = fault?.paceMs ?? delivery.paceMs;
  let sent = 0;
  for await (const frame of frames) {
    if (sent > 0 && frame.kind !== 'done') await (paceMs > 0 ? delay(paceMs, undefined, { signal }) : turn());
    if (signal.aborted) return;
    if (sent === 0 && fault?.holdAfterChunks === 0) await Promise.race([plan.held(), once(signal, 'abort')]);
    if (sent === fault?.cutAfterChunks) return void response.socket?.destroy();
    if (!(await writeFrame(frame.text, fault?.splitEvery, delivery))) return;
    sent++;
    // Held before the frame is counted: a test that reads the count may release at once.
    const held = sent === fault?.holdAfterChunks ? plan.held() : undefined;
    delivery.onFrame();
    if (held !== undefined) await Promise.race([held, once(signal, 'abort')]);
  }
  response.end();
}

/** The next turn of the event loop: every frame is a write, and thus a packet, of its own. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** False when the client has left. */
async function writeFrame(
  text: string | Buffer,
  splitEvery: number | undefined,
  { response, signal }: Delivery,
): Promise<boolean> {
  const bytes = splitEvery === undefined ? undefined : Buffer.from(text);
  const step = splitEvery ?? 1;
  let flowing = true;
  if (bytes === undefined) flowing = response.write(text);
  else {
    for (let start = 0; start < bytes.length; start += step) {
      flowing = response.write(bytes.subarray(start, start + step));
      await turn();
    }
  }
  if (!flowing && response.writableNeedDrain && !signal.aborted)
    await Promise.race([once(response, 'drain'), once(signal, 'abort')]);
  return !signal.aborted;
}

async function* faulty(frames: StreamReply['frames'], fault: Fault, dialect: Dialect): AsyncGenerator<Frame> {
  const errorAfter = fault.errorInStream === true ? 2 : fault.errorInStream === false ? undefined : fault.errorInStream;
  let count = 0;
  for await (const frame of frames) {
    if (count === errorAfter) {
      yield { kind: 'finish', text: dialect.errorFrame(troubleOf(fault, 500), frame) };
      return;
    }
    if (fault.endWithoutFinish && frame.kind === 'finish') return;
    if (fault.endWithoutDone && frame.kind === 'done') return;
    const sized = count === 1 && fault.oversizedBytes ? swollen(frame, fault.oversizedBytes) : frame;
    yield dialect.streamType === 'text/event-stream' ? dressed(sized, fault) : sized;
    if (count === 1 && fault.garbage) yield* dialect.brokenFrames.map((text): Frame => ({ kind: 'delta', text }));
    count++;
  }
}

/** The same event, padded with white space inside its JSON. */
function swollen({ kind, text }: Frame, size: number): Frame {
  return { kind, text: text.replace(/(^|data: )\{/, (opening) => `${opening}${' '.repeat(size)}`) };
}

function dressed(frame: Frame, { comments, crlf }: Fault): Frame {
  const text = comments ? `: still here\n\n${frame.text}` : frame.text;
  return { kind: frame.kind, text: crlf ? text.replaceAll('\n', '\r\n') : text };
}
