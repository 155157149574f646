/** How an answer differs from a normal one: its shape, its pace, and its errors. */
import { isObject, type Json, type JsonObject } from './json.ts';

/** All members are optional, and combine. A frame is one server-sent event. */
export interface Fault {
  // Shape
  /** The text of the answer. */
  text?: string;
  /** Default length of the text, in tokens. */
  words?: number;
  /** Exactly this many text deltas. */
  chunks?: number;
  tokensPerChunk?: number;
  /** `false`: no usage is reported. */
  usage?: boolean;
  /** `choices` (or `output`) is an empty list. */
  emptyChoices?: boolean;
  /** The JSON body, or one frame of the stream, is at least this long. */
  oversizedBytes?: number;
  /** Further response headers. */
  headers?: Record<string, string>;
  contentType?: string;

  // Pace, in milliseconds
  /** Before the status line. */
  headerDelayMs?: number;
  /** Between the headers and the first byte of the body. */
  firstByteDelayMs?: number;
  /** Between frames. */
  paceMs?: number;
  /** Never answers, not even with a status line. */
  hang?: boolean;
  /** After this many frames the stream pauses until `control.release()`. */
  holdAfterChunks?: number;
  /** A response in the background stays in this state until `control.release()`, and then ends. */
  holdBackground?: 'queued' | 'in_progress';

  // Errors
  status?: number;
  /** Of the error answer; default `json`. `numeric-code` is llama.cpp's form, where `code` is a number. */
  body?: 'json' | 'html' | 'empty' | 'text' | 'numeric-code';
  message?: string;
  code?: string;
  /** The error's type; default: the usual one for its status. */
  type?: string;
  /** The `Retry-After` header: seconds, or a date. */
  retryAfter?: number | string;
  /** 200, with an error object instead of an answer. */
  errorIn200?: boolean;
  /** An error frame after this many frames (`true`: after two), and nothing more. */
  errorInStream?: boolean | number;
  /** A response that ends as `failed`, with `code` and `message`; in a stream, by its own terminal event. */
  failResponse?: boolean;
  /** Only the first so many requests fail. Counted per `key`, or per equal fault when there is none. */
  failTimes?: number;
  key?: string;

  // Broken answers
  /** The socket is destroyed after this many frames; a JSON answer breaks off in the middle. */
  cutAfterChunks?: number;
  endWithoutDone?: boolean;
  /** The stream ends in an orderly way, but before the frame with the finish reason. */
  endWithoutFinish?: boolean;
  /** A body that is not JSON; a stream with broken frames between valid ones. */
  garbage?: boolean;

  // Unusual but valid streams
  /** Frames are written in pieces of this many bytes, across their borders and inside characters. */
  splitEvery?: number;
  /** All frames in a single write. */
  coalesce?: boolean;
  /** Lines end in CR LF. */
  crlf?: boolean;
  /** A comment line before every frame. */
  comments?: boolean;
}

export function faultIn(value: Json | undefined): Fault | undefined {
  return isObject(value) ? (value as JsonObject & Fault) : undefined;
}

const NAMED: Readonly<Record<string, Fault>> = {
  hang: { hang: true },
  'slow-headers': { headerDelayMs: 2000 },
  'slow-first-byte': { firstByteDelayMs: 2000 },
  slow: { paceMs: 100 },
  cut: { cutAfterChunks: 3 },
  'no-done': { endWithoutDone: true },
  'no-finish': { endWithoutFinish: true },
  garbage: { garbage: true },
  html: { contentType: 'text/html', garbage: true },
  'error-in-200': { errorIn200: true },
  'error-in-stream': { errorInStream: true },
  oversized: { oversizedBytes: 32 * 1024 * 1024 },
  'empty-choices': { emptyChoices: true },
  'no-usage': { usage: false },
  'failed-response': { failResponse: true },
  flaky: { failTimes: 2, status: 503 },
};

/**
 * The fault that a model id selects: `fault-<name>`, `fault-<status>` or, with any id before it, `…-pace-<ms>` and
 * `…-burst` (all frames at once).
 * Undefined for an ordinary id.
 */
export function faultOfModel(model: string): Fault | undefined {
  const pace = /-pace-(\d+)$/.exec(model)?.[1];
  if (pace !== undefined) return { paceMs: Number(pace) };
  if (model.endsWith('-burst')) return { coalesce: true };
  const name = /^fault-(.+)$/.exec(model)?.[1];
  if (name === undefined) return undefined;
  if (/^[45]\d\d$/.test(name)) return { status: Number(name) };
  return NAMED[name];
}

export interface Where {
  /** Only requests of this path, for example `/v1/models`. Every POST when absent. */
  readonly path?: string;
}

/** The faults that a test has set, beside those that requests contain. */
export class FaultPlan {
  #next: { fault: Fault; where: Where }[] = [];
  #always: { fault: Fault; where: Where }[] = [];
  #failed = new Map<string, number>();
  #held = new Set<() => void>();

  /** For the next matching request only; several apply to consecutive requests. */
  next(fault: Fault, where: Where = {}): void {
    this.#next.push({ fault, where });
  }

  /** For every matching request, until `clear`. */
  always(fault: Fault, where: Where = {}): void {
    this.#always.push({ fault, where });
  }

  clear(): void {
    this.#next = [];
    this.#always = [];
    this.#failed.clear();
  }

  /** Continues all paused streams and jobs (`holdAfterChunks`, `holdBackground`). */
  release(): void {
    for (const letGo of this.#held) letGo();
    this.#held.clear();
  }

  /** Resolves at the next `release`. */
  held(): Promise<void> {
    return new Promise((resolve) => this.#held.add(resolve));
  }

  /** In order of precedence: `next`, the request's own `simulate` member, its model id, `always`. */
  pick(method: string, path: string, body: JsonObject): Fault | undefined {
    if (this.#next.length === 0 && this.#always.length === 0 && body.simulate === undefined) {
      return typeof body.model === 'string' ? this.#unlessSpent(faultOfModel(body.model)) : undefined;
    }
    const matches = ({ where }: { where: Where }) =>
      where.path === undefined ? method === 'POST' : where.path === path;
    const index = this.#next.findIndex(matches);
    if (index !== -1) return this.#next.splice(index, 1)[0]?.fault;
    const requested = faultIn(body.simulate) ?? (typeof body.model === 'string' ? faultOfModel(body.model) : undefined);
    return this.#unlessSpent(requested ?? this.#always.find(matches)?.fault);
  }

  #unlessSpent(fault: Fault | undefined): Fault | undefined {
    if (fault?.failTimes === undefined) return fault;
    const key = fault.key ?? JSON.stringify(fault);
    const failed = this.#failed.get(key) ?? 0;
    if (failed >= fault.failTimes) return undefined;
    this.#failed.set(key, failed + 1);
    return fault;
  }
}
