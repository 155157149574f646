/** The pieces of work that are measured, and the request of each server for the same piece. */
import { Buffer } from 'node:buffer';
import type { Load } from './load/load.ts';
import type { SubjectKind } from './servers/subject-kinds.ts';
import { chatEvents, chatJson, chatSse, TEXT } from './upstream/canned.ts';
import type { UpstreamName } from './upstream/start-upstreams.ts';

const PACE_MS = 25;
const SLOW_PACE_MS = 100;

export interface Work {
  readonly name: string;
  readonly describe: string;
  readonly upstream: UpstreamName;
  /** The first part of the upstream's path, which selects the kind of answer. */
  readonly route: string;
  /** The format of the requests to the gateway. The upstream only supports chat completions. */
  readonly dialect: 'chat' | 'responses' | 'messages';
  /** The provider of the gateway behind which the upstream's route is. */
  readonly provider: string;
  readonly stream: boolean;
  /** Whether each word of the stream is the time at which it was sent. */
  readonly stamped?: boolean;
  /** The cells of a full run. */
  readonly cells: readonly { readonly connections: number; readonly servers: readonly SubjectKind[] }[];
  /** Until all connections are open, one after the other. Default: they open at once. */
  readonly rampSeconds?: number;
  /** Not counted at the beginning of each round. Default: as long as the ramp. */
  readonly leadInSeconds?: number;
  /** A round counts for at least this long. */
  readonly leastSeconds?: number;
  /** Rounds of a full run, where each round takes long. */
  readonly mostRounds?: number;
}

/** The providers of every gateway, by the prefix of their variables, and the upstream's route of each. */
export const PROVIDERS: Readonly<Record<string, readonly [UpstreamName, string]>> = {
  OPENAI: ['instant', 'json'],
  OPENAI_SSE: ['instant', 'sse'],
  LLAMACPP: ['instant', 'json'],
  LLAMACPP_SSE: ['instant', 'sse'],
  OPENAI_WAIT20: ['timed', 'wait-20'],
  OPENAI_WAIT60: ['timed', 'wait-60'],
  OPENAI_PACED: ['timed', `pace-${PACE_MS}`],
  OPENAI_SLOW: ['timed', `pace-${SLOW_PACE_MS}`],
};

const few = ['direct', 'bare', 'gateway'] as const;
const every = ['direct', 'bare', 'gateway', 'shipped', 'governed', 'guarded', 'cached'] as const;
const instant = { upstream: 'instant', cells: [{ connections: 50, servers: few }] } as const;
const plain = { dialect: 'chat', stream: false, route: 'json', provider: 'openai' } as const;
const stream = { dialect: 'chat', stream: true, route: 'sse', provider: 'openai-sse' } as const;

export const WORKS: readonly Work[] = [
  {
    ...instant,
    ...plain,
    name: 'chat-json',
    describe: 'chat, JSON',
    cells: [
      { connections: 1, servers: every },
      { connections: 10, servers: few },
      { connections: 50, servers: every },
    ],
  },
  {
    ...instant,
    ...stream,
    name: 'chat-sse',
    describe: 'chat, SSE',
    cells: [
      { connections: 1, servers: [...few, 'cached'] },
      { connections: 50, servers: every },
    ],
  },
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
  { ...instant, ...plain, name: 'messages-json', describe: 'messages → chat, JSON', dialect: 'messages' },
  { ...instant, ...stream, name: 'messages-sse', describe: 'messages → chat, SSE', dialect: 'messages' },
  {
    ...plain,
    upstream: 'timed',
    route: 'wait-60',
    provider: 'openai-wait60',
    name: 'chat-wait-60',
    describe: 'chat, JSON, the upstream takes 60 ms',
    cells: [10, 50, 150, 500, 1000].map((connections) => ({ connections, servers: few })),
    rampSeconds: 0.5,
    leadInSeconds: 1,
    leastSeconds: 2,
    mostRounds: 3,
  },
  {
    ...stream,
    upstream: 'timed',
    route: `pace-${PACE_MS}`,
    provider: 'openai-paced',
    stamped: true,
    name: 'chat-paced',
    describe: `chat, SSE, ${PACE_MS} ms between words`,
    cells: [10, 512, 2000].map((connections) => ({ connections, servers: few })),
    rampSeconds: 1,
    leastSeconds: 2,
    mostRounds: 2,
  },
  {
    ...stream,
    upstream: 'timed',
    route: `pace-${SLOW_PACE_MS}`,
    provider: 'openai-slow',
    stamped: true,
    name: 'chat-slow',
    describe: `chat, SSE, ${SLOW_PACE_MS} ms between words`,
    cells: [{ connections: 2000, servers: few }],
    rampSeconds: 3,
    leastSeconds: 2,
    mostRounds: 2,
  },
];

/** For the highest sustained rate. */
export const SUSTAINED: Work = {
  ...plain,
  upstream: 'timed',
  route: 'wait-20',
  provider: 'openai-wait20',
  name: 'sustained',
  describe: 'chat, JSON, the upstream takes 20 ms',
  cells: [],
};

const SYSTEM =
  'You are a careful assistant for the readers of a county archive. Answer briefly, name your sources, and say so when ' +
  'you do not know. Never invent a shelf mark.';
const QUESTION =
  'Which records would tell me who owned the mill at the lower bridge between the two surveys, and in which order ' +
  'should I look at them?';

/** How requests to a server are made. */
export interface SubjectRequest {
  readonly origin: string;
  /** Whether it is a gateway, which takes the work's own dialect, or relays the upstream's. */
  readonly isGateway: boolean;
  /** `{route}` stands for the work's route. */
  readonly headers: Readonly<Record<string, string>>;
  /** The path, for a server that is no gateway. Default: the upstream's. `{route}` stands for the work's route. */
  readonly path?: string;
  /** The model, for a server that is no gateway. */
  readonly model?: string;
  /** Whether its answers differ from the upstream's bytes. */
  readonly rewrites?: boolean;
}

export type Request = Pick<Load, 'url' | 'body' | 'headers' | 'expect' | 'stream' | 'stamped'>;

/** The request for one piece of work. A server that only relays gets the upstream's format, chat completions. */
export function requestFor(work: Work, target: SubjectRequest): Request {
  const { origin, isGateway, headers, path = '/{route}/v1/chat/completions', model = 'canned' } = target;
  const dialect = isGateway ? work.dialect : 'chat';
  const sent = Object.entries(headers).map(([name, value]) => [name, value.replace('{route}', work.route)]);
  return {
    url: `${origin}${isGateway ? PATHS[dialect] : path.replace('{route}', work.route)}`,
    body: JSON.stringify({
      model: isGateway ? `${work.provider}/canned` : model,
      ...bodies[dialect],
      ...(work.stream ? streaming[dialect] : {}),
    }),
    headers: Object.fromEntries(sent),
    stream: work.stream,
    stamped: work.stamped ?? false,
    expect: target.rewrites ? rewritten(work) : expected(work, dialect),
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

function rewritten({ stream }: Work): Load['expect'] {
  return stream ? { end: 'data: [DONE]' } : { end: '}', has: TEXT };
}
