/** Puts an answer on the wire, in time or with the faults that were asked for. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Fault, FaultPlan } from './fault.ts';
import { type JsonObject, objectIn } from './json.ts';
import type { Frame, JsonReply, Reply } from './reply.ts';

export interface Delivery {
  readonly response: ServerResponse;
  readonly fault: Fault | undefined;
  readonly plan: FaultPlan;
  /** Aborted when the client leaves or the server closes. */
  readonly signal: AbortSignal;
  /** Between frames, when the fault sets none. */
  readonly paceMs: number;
  /** Called after every frame that was handed to the socket. */
  onFrame(): void;
}

/** Resolves when there is nothing more to write. Rejects with an abort error when the signal is aborted in a wait. */
export async function deliver(reply: Reply, delivery: Delivery): Promise<void> {
  const { response, fault, signal } = delivery;
  if (fault === undefined && 'json' in reply) return sendBody(response, reply.status, {}, JSON.stringify(reply.json));
  if (fault?.headerDelayMs) await delay(fault.headerDelayMs, undefined, { signal });
  if (fault?.hang) await once(signal, 'abort');
  if (signal.aborted) return;
  const failed = failure(fault, 'frames' in reply);
  if (failed !== undefined)
    return sendBody(response, failed.status, { ...failed.headers, ...fault?.headers }, failed.body);
  return 'json' in reply ? deliverJson(reply, delivery) : deliverStream(reply.frames, delivery);
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
function failure(fault: Fault | undefined, streaming: boolean): Failed | undefined {
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
      headers: { 'content-type': type[fault.body ?? 'json'], ...retry },
      body: errorBody(fault, status),
    };
  }
  if (fault?.errorIn200) {
    const error = JSON.stringify(errorObject(fault, 500));
    if (streaming) return { status: 200, headers: { 'content-type': 'text/event-stream' }, body: `data: ${error}\n\n` };
    return { status: 200, headers: {}, body: error };
  }
  return undefined;
}

function errorBody(fault: Fault, status: number): string {
  switch (fault.body) {
    case 'html':
      return `<html><head><title>${status}</title></head><body><h1>${status}</h1><p>The server is unwell.</p></body></html>`;
    case 'text':
      return fault.message ?? `simulated error ${status}`;
    case 'empty':
      return '';
    case 'numeric-code':
      return JSON.stringify({
        error: { code: status, message: fault.message ?? `simulated error ${status}`, type: typeFor(status) },
      });
    default:
      return JSON.stringify(errorObject(fault, status));
  }
}

function errorObject(fault: Fault, status: number): JsonObject {
  const message = fault.message ?? `simulated error ${status}`;
  return {
    error: {
      message,
      type: typeFor(status),
      param: null,
      code: fault.code ?? (status === 429 ? 'rate_limit_exceeded' : null),
    },
  };
}

function typeFor(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

async function deliverJson(reply: JsonReply, { response, fault, signal }: Delivery): Promise<void> {
  const whole = fault?.garbage
    ? '{"id": "broken", "choices": ['
    : JSON.stringify(padded(reply.json, fault?.oversizedBytes));
  const bytes = Buffer.from(whole);
  const headers = { 'content-type': fault?.contentType ?? 'application/json', ...fault?.headers };
  response.writeHead(reply.status, { ...headers, 'content-length': bytes.length });
  if (fault?.firstByteDelayMs) {
    response.flushHeaders();
    await delay(fault.firstByteDelayMs, undefined, { signal });
  }
  if (fault?.cutAfterChunks === undefined) {
    response.end(bytes);
    return;
  }
  await new Promise((written) => response.write(bytes.subarray(0, bytes.length >> 1), written));
  response.socket?.destroy();
}

function padded(json: object, size: number | undefined): object {
  return size === undefined ? json : { ...json, padding: 'x'.repeat(size) };
}

async function deliverStream(frames: Iterable<Frame>, delivery: Delivery): Promise<void> {
  const { response, fault, plan, signal } = delivery;
  const paceMs = fault?.paceMs ?? delivery.paceMs;
  response.writeHead(200, {
    'content-type': fault?.contentType ?? 'text/event-stream',
    'cache-control': 'no-cache',
    ...fault?.headers,
  });
  if (fault?.firstByteDelayMs) {
    response.flushHeaders();
    await delay(fault.firstByteDelayMs, undefined, { signal });
  }
  if (fault?.coalesce) return void response.end(Array.from(faulty(frames, fault), (frame) => frame.text).join(''));
  let sent = 0;
  for (const frame of fault === undefined ? frames : faulty(frames, fault)) {
    if (sent > 0 && frame.kind !== 'done') await (paceMs > 0 ? delay(paceMs, undefined, { signal }) : turn());
    if (signal.aborted) return;
    if (sent === fault?.holdAfterChunks) await Promise.race([plan.held(), once(signal, 'abort')]);
    if (sent === fault?.cutAfterChunks) return void response.socket?.destroy();
    if (!(await writeFrame(frame.text, fault?.splitEvery, delivery))) return;
    sent++;
    delivery.onFrame();
  }
  response.end();
}

/** The next turn of the event loop: every frame is a write, and thus a packet, of its own. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** False when the client has left. */
async function writeFrame(
  text: string,
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

const BROKEN = [
  'data: {"id": "broken", "choices": [{"del\n\n',
  'data: not json at all\n\n',
  '\u0000\u0001 no field\n\n',
];

function* faulty(frames: Iterable<Frame>, fault: Fault): Generator<Frame> {
  const errorAfter = fault.errorInStream === true ? 2 : fault.errorInStream === false ? undefined : fault.errorInStream;
  let count = 0;
  for (const frame of frames) {
    if (count === errorAfter) {
      yield { kind: 'finish', text: errorFrame(frame, errorObject(fault, 500)) };
      return;
    }
    if (fault.endWithoutFinish && frame.kind === 'finish') return;
    if (fault.endWithoutDone && frame.kind === 'done') return;
    yield dressed(count === 1 && fault.oversizedBytes ? swollen(frame, fault.oversizedBytes) : frame, fault);
    if (count === 1 && fault.garbage) yield* BROKEN.map((text): Frame => ({ kind: 'delta', text }));
    count++;
  }
}

/** Named events are the Responses API's, where the error is an event of its own form. */
function errorFrame(beside: Frame, error: JsonObject): string {
  if (!beside.text.startsWith('event: ')) return `data: ${JSON.stringify(error)}\n\n`;
  const { message, code } = objectIn(error.error);
  const data = { type: 'error', code: code ?? 'server_error', message, param: null, sequence_number: 2 };
  return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
}

/** The same event, made long by white space inside its JSON. */
function swollen({ kind, text }: Frame, size: number): Frame {
  return { kind, text: text.replace('data: {', `data: {${' '.repeat(size)}`) };
}

function dressed(frame: Frame, { comments, crlf }: Fault): Frame {
  const text = comments ? `: still here\n\n${frame.text}` : frame.text;
  return { kind: frame.kind, text: crlf ? text.replaceAll('\n', '\r\n') : text };
}
