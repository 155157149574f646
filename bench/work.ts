/** The pieces of work that are measured, and how each server is asked for the same piece. */
import { Buffer } from 'node:buffer';
import type { Load } from './load/load.ts';
import { chatEvents, chatJson, chatSse, TEXT } from './upstream/canned.ts';
import type { UpstreamName } from './upstream/start-upstreams.ts';

export interface Work {
  readonly name: string;
  readonly describe: string;
  readonly upstream: UpstreamName;
  /** The first part of the upstream's path, which says how it answers. */
  readonly route: string;
  /** In which language the gateway is asked. The upstream only speaks chat completions. */
  readonly dialect: 'chat' | 'responses' | 'messages';
  /** The provider of the gateway behind which the upstream's route is. */
  readonly provider: string;
  readonly stream: boolean;
  readonly stamped?: boolean;
  readonly connections: readonly number[];
}

/** The providers of every gateway, by the prefix of their variables, and the upstream's route of each. */
export const PROVIDERS: Readonly<Record<string, readonly [UpstreamName, string]>> = {
  OPENAI: ['instant', 'json'],
  OPENAI_SSE: ['instant', 'sse'],
  LLAMACPP: ['instant', 'json'],
  LLAMACPP_SSE: ['instant', 'sse'],
  OPENAI_WAIT20: ['timed', 'wait-20'],
  OPENAI_WAIT60: ['timed', 'wait-60'],
  OPENAI_PACED: ['timed', 'pace-25'],
};

const instant = { upstream: 'instant', connections: [50] } as const;
const plain = { dialect: 'chat', stream: false, route: 'json', provider: 'openai' } as const;
const stream = { dialect: 'chat', stream: true, route: 'sse', provider: 'openai-sse' } as const;

export const WORKS: readonly Work[] = [
  { ...instant, ...plain, name: 'chat-json', describe: 'chat, JSON', connections: [1, 10, 50] },
  { ...instant, ...stream, name: 'chat-sse', describe: 'chat, SSE', connections: [1, 10, 50] },
  {
    ...instant,
    ...plain,
    name: 'responses-json',
    describe: 'responses → chat, JSON',
    dialect: 'responses',
    provider: 'llamacpp',
  },
  {
    ...instant,
    ...stream,
    name: 'responses-sse',
    describe: 'responses → chat, SSE',
    dialect: 'responses',
    provider: 'llamacpp-sse',
  },
  {
    ...instant,
    ...plain,
    name: 'messages-json',
    describe: 'messages → chat, JSON',
    dialect: 'messages',
    provider: 'openai',
  },
  {
    ...instant,
    ...stream,
    name: 'messages-sse',
    describe: 'messages → chat, SSE',
    dialect: 'messages',
    provider: 'openai-sse',
  },
];

const SYSTEM =
  'You are a careful assistant for the readers of a county archive. Answer briefly, name your sources, and say so when ' +
  'you do not know. Never invent a shelf mark.';
const QUESTION =
  'Which records would tell me who owned the mill at the lower bridge between the two surveys, and in which order ' +
  'should I look at them?';

/** How a server wants to be asked. */
export interface Asked {
  readonly origin: string;
  /** Whether it is a gateway, which takes the work's own dialect, or relays the upstream's. */
  readonly isGateway: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** The path, for a server that is no gateway. Default: the upstream's. `{route}` stands for the work's route. */
  readonly path?: string;
}

export type Request = Pick<Load, 'url' | 'body' | 'headers' | 'expect' | 'stream' | 'stamped'>;

/** The request for one piece of work. A server that only relays is asked in chat completions, as the upstream is. */
export function requestFor(work: Work, { origin, isGateway, headers, path }: Asked): Request {
  const dialect = isGateway ? work.dialect : 'chat';
  const relayed = (path ?? '/{route}/v1/chat/completions').replace('{route}', work.route);
  const model = isGateway ? `${work.provider}/canned` : 'canned';
  return {
    url: `${origin}${isGateway ? PATHS[dialect] : relayed}`,
    body: JSON.stringify({ model, ...bodies[dialect], ...(work.stream ? streaming[dialect] : {}) }),
    headers,
    stream: work.stream,
    stamped: work.stamped ?? false,
    expect: expected(work, dialect),
  };
}

const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses', messages: '/v1/messages' } as const;

const bodies = {
  chat: {
    messages: [
      { role: 'system', content: SYSTEM },
      { role: 'user', content: QUESTION },
    ],
  },
  responses: { instructions: SYSTEM, input: QUESTION },
  messages: { system: SYSTEM, max_tokens: 1000, messages: [{ role: 'user', content: QUESTION }] },
} as const;

const streaming = {
  chat: { stream: true, stream_options: { include_usage: true } },
  responses: { stream: true },
  messages: { stream: true },
} as const;

const PACED_BYTES = Buffer.byteLength(chatEvents({ stamped: true }).join(''));

function expected(work: Work, dialect: Work['dialect']): Load['expect'] {
  if (dialect === 'chat') {
    if (work.stamped) return { length: PACED_BYTES, end: 'data: [DONE]' };
    return { body: work.stream ? chatSse : chatJson };
  }
  if (!work.stream) return { end: '}', has: TEXT };
  return dialect === 'responses' ? { has: 'event: response.completed' } : { has: 'event: message_stop' };
}
