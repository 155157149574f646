/** Evidence that needs no gateway: requests and answers of clients, and calls that providers got. */
import { isObject } from '../../src/json/is-object.ts';

export type ProviderName = 'llamacpp' | 'openai';

export interface SentRequest {
  /** Sent as `X-Request-ID`, never twice; undefined to have the gateway make one up. */
  readonly requestId: string | undefined;
  readonly route: 'chat' | 'responses' | 'messages' | 'embeddings' | 'passthrough' | 'retrieve' | 'delete';
  readonly provider: ProviderName;
  readonly stream: boolean;
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly body?: Buffer;
  readonly idempotencyKey?: string;
  /** Further headers. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The facts about a request whose workflow has guardrails. */
  readonly guarded?: GuardedRequest;
  /** The facts about a request that the response cache may answer. */
  readonly cached?: CachedRequest;
  /** The facts about a request that a plugin changes. */
  readonly plugin?: PluginRequest;
  /** Responses: whether it is to be kept. */
  readonly store?: boolean;
  /** Chat streams: whether the client asked for the usage chunk. */
  readonly wantsUsage?: boolean;
  /** The client hangs up once it has this much of the answer's body. */
  readonly leaveAfterBytes?: number;
  /** The text that the answer must hold, because it is in an earlier turn. */
  readonly recalls?: string;
  /** Retrieval and deletion: the id of the response. */
  readonly responseId?: string;
  /** Retrieval: the members that must be shown; `gone` when it was deleted. */
  readonly shows?: Readonly<Record<string, unknown>> | 'gone';
}

export interface GuardedRequest {
  readonly userPath: string;
  /** The newest version of its workflow that was acknowledged before it was sent. */
  readonly leastVersion: number;
  /** The text of a whole answer must be one of these; they differ by the version of the workflow. */
  readonly texts: readonly string[];
}

export interface CachedRequest {
  readonly userPath: string;
  /** Of a whole answer; of embeddings the vector as JSON. */
  readonly text: string;
  /** Whether its headers allow an answer from the cache. */
  readonly reads: boolean;
  /** Whether its headers allow the answer to be cached. */
  readonly stores: boolean;
  readonly ttlSeconds?: number;
  /** Request ids of the purges that were acknowledged before it was sent. */
  readonly purges: readonly string[];
}

export interface PluginRequest {
  /** Of a whole answer. */
  readonly text: string;
  /** Whether the plugin ends its process when it gets the request. */
  readonly exits: boolean;
}

export interface Answer {
  /** Undefined when not even a status line came. */
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Every byte of the body that arrived, without the transfer coding. */
  readonly body: Buffer;
  /** `left`: the client itself hung up. `cut`: the connection ended before the answer did. */
  readonly end: 'whole' | 'cut' | 'left';
  /** Of the gateway. */
  readonly url?: string;
  /** On the clock of `performance.now()`, like `endedAt`. */
  readonly sentAt: number;
  readonly endedAt: number;
}

/** A time in which the gateway reported that its log cannot be written, on the clock of `performance.now()`. */
export interface LogFailure {
  /** Of the gateway; default: any. */
  readonly url?: string;
  readonly from: number;
  readonly to: number;
}

export interface Conversation {
  readonly request: SentRequest;
  readonly answer: Answer;
}

/** A request as a provider received it. */
export interface ProviderCall {
  readonly provider: ProviderName;
  readonly method: string;
  readonly path: string;
  readonly requestId: string | undefined;
  readonly body?: string;
  /** The port on which it arrived. */
  readonly port: number;
  /** When its body had arrived, on the clock of `performance.now()`. */
  readonly at: number;
  /** Whether its answer was sent whole. */
  readonly isAnswered: boolean;
  /** Frames of a stream that were sent. */
  readonly framesSent: number;
}

/** The answer to `GET /v1/responses/{id}` after the restart. */
export interface Retrieved {
  readonly status: number;
  readonly json: unknown;
}

export interface Violation {
  readonly check: string;
  readonly what: string;
}

/** Frames that the gateway itself adds when a stream ends before its time. */
export const GATEWAY_FRAME = /^(data: \{"error":|event: error\n|event: response\.failed\n|data: \[DONE\]\n\n$)/;

/** The whole frames of an event stream, each with its blank line, and what follows the last of them. */
export function framesOf(body: Buffer): { readonly frames: readonly Buffer[]; readonly rest: Buffer } {
  const frames: Buffer[] = [];
  let start = 0;
  for (let end = body.indexOf('\n\n'); end !== -1; end = body.indexOf('\n\n', start)) {
    frames.push(body.subarray(start, end + 2));
    start = end + 2;
  }
  return { frames, rest: body.subarray(start) };
}

/** The JSON behind `data:`, or undefined for `[DONE]` and for anything that is no JSON object. */
export function dataOf(frame: Buffer): Record<string, unknown> | undefined {
  const line = frame
    .toString()
    .split('\n')
    .find((one) => one.startsWith('data:'));
  return line === undefined ? undefined : objectOf(line.slice('data:'.length));
}

export function objectOf(text: string | Buffer): Record<string, unknown> | undefined {
  try {
    const parsed: unknown = JSON.parse(text.toString());
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** All `output_text` of a response object. */
export function outputText(response: unknown): string {
  if (!isObject(response) || !Array.isArray(response.output)) return '';
  const parts: unknown[] = response.output.flatMap((item: unknown) =>
    isObject(item) && Array.isArray(item.content) ? item.content : [],
  );
  return parts.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** The facts about a response in its event stream. */
export interface StreamedResponse {
  readonly id: string | undefined;
  /** All text deltas. */
  readonly text: string;
  readonly sequence: readonly number[];
  /** The response object of the terminal event. */
  readonly final: Record<string, unknown> | undefined;
}

export function streamedResponse(body: Buffer): StreamedResponse {
  let id: string | undefined;
  let text = '';
  let final: Record<string, unknown> | undefined;
  const sequence: number[] = [];
  for (const frame of framesOf(body).frames) {
    const event = dataOf(frame);
    if (event === undefined) continue;
    if (typeof event.sequence_number === 'number') sequence.push(event.sequence_number);
    if (event.type === 'response.output_text.delta' && typeof event.delta === 'string') text += event.delta;
    if (!isObject(event.response)) continue;
    if (typeof event.response.id === 'string') id ??= event.response.id;
    if (typeof event.type === 'string' && TERMINAL.has(event.type)) final = event.response;
  }
  return { id, text, sequence, final };
}
