/** JSON-RPC 2.0 as MCP uses it, and the errors of a connection to a server. */
import { z } from 'zod';

export type MessageId = string | number;
export type Params = Record<string, unknown>;

export interface RequestMessage {
  readonly jsonrpc: '2.0';
  readonly id: MessageId;
  readonly method: string;
  readonly params?: Params;
}

export interface NotificationMessage {
  readonly jsonrpc: '2.0';
  readonly method: string;
  readonly params?: Params;
}

export interface ResultMessage {
  readonly jsonrpc: '2.0';
  readonly id: MessageId;
  readonly result: Params;
}

export interface ErrorMessage {
  readonly jsonrpc: '2.0';
  readonly id?: MessageId;
  readonly error: { readonly code: number; readonly message: string; readonly data?: unknown };
}

export type ResponseMessage = ResultMessage | ErrorMessage;
export type JsonRpcMessage = RequestMessage | NotificationMessage | ResponseMessage;

const jsonrpc = z.literal('2.0');
const id = z.union([z.string(), z.number().int()]);
const params = z.record(z.string(), z.unknown()).optional();
const error = z.looseObject({ code: z.number().int(), message: z.string(), data: z.unknown().optional() });
const message = z.union([
  z.strictObject({ jsonrpc, id, method: z.string(), params }),
  z.strictObject({ jsonrpc, method: z.string(), params }),
  z.strictObject({ jsonrpc, id, result: z.record(z.string(), z.unknown()) }),
  z.strictObject({ jsonrpc, id: id.optional(), error }),
]);

/** A message, or with protocol version 2025-03-26 a list of messages. Undefined for anything else. */
export function messagesIn(json: unknown): readonly JsonRpcMessage[] | undefined {
  const read = z.union([message, z.array(message).min(1).max(MAX_BATCH)]).safeParse(json);
  if (!read.success) return undefined;
  return (Array.isArray(read.data) ? read.data : [read.data]) as readonly JsonRpcMessage[];
}

const MAX_BATCH = 100;

/** Levels of objects and lists in a message of a server, as in requests of clients by default. */
export const MAX_LEVELS = 200;

/** Whether a value is nested deeper than that. It has no recursion, so it works for any depth. */
export function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_LEVELS) return true;
    const next: unknown[] = [];
    for (const one of level) {
      if (typeof one !== 'object' || one === null) continue;
      for (const member of Object.values(one)) if (typeof member === 'object' && member !== null) next.push(member);
    }
    level = next;
  }
  return false;
}

export function isRequest(given: JsonRpcMessage): given is RequestMessage {
  return 'method' in given && 'id' in given;
}

export const codes = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  /** Of the gateway: `data` has the members of its error envelope. */
  refused: -32000,
  resourceNotFound: -32002,
} as const;

/** An error that is returned as it is. */
export class McpError extends Error {
  override readonly name = 'McpError';
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, text: string, data?: unknown) {
    super(text);
    this.code = code;
    this.data = data;
  }

  get error(): ErrorMessage['error'] {
    const { code, message: text, data } = this;
    return { code, message: text, ...(data !== undefined && { data }) };
  }
}

export type UpstreamFailureKind =
  /** No connection, or the answer was an HTTP error. */
  | 'unreachable'
  /** The connection, or the stream of an answer, ended without the answer. */
  | 'closed'
  /** The server does not know the session any more: it has not read the request. */
  | 'session lost'
  | 'timeout'
  | 'too large'
  | 'cancelled';

/** There is no answer of a server. The message holds no secret. */
export class UpstreamFailure extends Error {
  override readonly name = 'UpstreamFailure';
  readonly kind: UpstreamFailureKind;
  /** The message without words of the server. */
  readonly summary: string;

  /** @param detail words of the server, without secrets */
  constructor(kind: UpstreamFailureKind, summary: string, cause?: unknown, detail = '') {
    super(detail === '' ? summary : `${summary}: ${detail}`, { cause });
    this.kind = kind;
    this.summary = summary;
  }
}
