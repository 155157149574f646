/** Formats of errors, whole and in the middle of a stream: OpenAI's, Anthropic's, Ollama's. */
import type { JsonObject } from './json.ts';
import type { Frame } from './reply.ts';

/** An error, before it is written in a dialect's format. */
export interface Trouble {
  readonly status: number;
  readonly message: string;
  /** Overrides the dialect's type for the status. */
  readonly type?: string;
  readonly param?: string | null;
  readonly code?: string | null;
}

export interface Dialect {
  /** The content type of its streams. */
  readonly streamType: string;
  errorBody(trouble: Trouble): JsonObject;
  /** The error in mid-stream, in the framing of the frames around it. */
  errorFrame(trouble: Trouble, beside?: Frame): string;
  /** Between frames that are well-formed. */
  readonly brokenFrames: readonly string[];
}

const SSE = 'text/event-stream';
const BROKEN_EVENTS = [
  'data: {"id": "broken", "choices": [{"del\n\n',
  'data: not json at all\n\n',
  '\u0000\u0001 no field\n\n',
];

function openaiType(status: number): string {
  if (status === 401) return 'authentication_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

export const OPENAI: Dialect = {
  streamType: SSE,
  brokenFrames: BROKEN_EVENTS,
  errorBody: ({ status, message, type = openaiType(status), param = null, code = null }) => ({
    error: { message, type, param, code },
  }),
  /** Named events belong to the Responses API, whose error is an event of another form. */
  errorFrame(trouble, beside) {
    if (!beside?.text.startsWith('event: ')) return `data: ${JSON.stringify(OPENAI.errorBody(trouble))}\n\n`;
    const { message, code } = trouble;
    const sequence_number = Number(/"sequence_number":(\d+)\}\s*$/.exec(beside.text)?.[1] ?? 0);
    const data = { type: 'error', code: code ?? 'server_error', message, param: null, sequence_number };
    return `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  },
};

const ANTHROPIC_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

export const ANTHROPIC: Dialect = {
  streamType: SSE,
  brokenFrames: BROKEN_EVENTS,
  errorBody({ status, message, type, code }) {
    const details = code === undefined || code === null ? {} : { details: { error_code: code } };
    const named = type ?? ANTHROPIC_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
    return { type: 'error', error: { type: named, message, ...details }, request_id: 'req_simulated' };
  },
  errorFrame({ message, type = 'overloaded_error' }) {
    return `event: error\ndata: ${JSON.stringify({ type: 'error', error: { type, message } })}\n\n`;
  },
};

export const OLLAMA: Dialect = {
  streamType: 'application/x-ndjson',
  brokenFrames: ['{"model": "broken", "mess\n', 'not json at all\n'],
  errorBody: ({ message }) => ({ error: message }),
  errorFrame: (trouble) => `${JSON.stringify(OLLAMA.errorBody(trouble))}\n`,
};

/** `GET /v1/models` belongs to two dialects; the header `anthropic-version` decides. */
export function dialectOf(path: string, anthropicVersion: unknown): Dialect {
  if (path.startsWith('/api/')) return OLLAMA;
  if (path === '/v1/messages' || path.startsWith('/v1/messages/')) return ANTHROPIC;
  const models = path === '/v1/models' || path.startsWith('/v1/models/');
  return models && anthropicVersion !== undefined ? ANTHROPIC : OPENAI;
}
