/** The pieces of work that are measured, and how each server is asked for the same piece. */
import type { Load } from './load.ts';
import type { Server } from './servers.ts';

/** `governed`: the same gateway, asked with a managed key that has a budget and rate limits above it. */
export type Subject = 'provider' | 'bare' | 'gateway' | 'governed';

/** Tokens of every answer. A chat stream of 30 has 33 events: role, 30 words, finish, usage; and `[DONE]`. */
export const WORDS = 30;
export const PACE_MS = 5;
export const PACED = `simulated-small-pace-${PACE_MS}`;
export const MODELS = ['simulated-small', PACED, 'simulated-small-burst'] as const;

export interface Work {
  readonly name: string;
  readonly describe: string;
  readonly dialect: 'chat' | 'responses' | 'translated';
  readonly stream: boolean;
  readonly model: (typeof MODELS)[number];
  readonly connections: readonly number[];
  /** Whether it is asked under a key with a budget and limits, too. */
  readonly governed?: boolean;
}

export function subjectsOf({ governed }: Work): readonly Subject[] {
  return governed ? ['provider', 'bare', 'gateway', 'governed'] : ['provider', 'bare', 'gateway'];
}

const everywhere = [1, 10, 50];
const [PLAIN, , BURST] = MODELS;

export const WORKS: readonly Work[] = [
  {
    name: 'chat-json',
    describe: 'chat, JSON',
    dialect: 'chat',
    stream: false,
    model: PLAIN,
    connections: everywhere,
    governed: true,
  },
  {
    name: 'chat-sse',
    describe: 'chat, SSE',
    dialect: 'chat',
    stream: true,
    model: PLAIN,
    connections: everywhere,
    governed: true,
  },
  {
    name: 'responses-json',
    describe: 'responses, JSON',
    dialect: 'responses',
    stream: false,
    model: PLAIN,
    connections: everywhere,
  },
  {
    name: 'responses-sse',
    describe: 'responses, SSE',
    dialect: 'responses',
    stream: true,
    model: PLAIN,
    connections: everywhere,
  },
  {
    name: 'translated-json',
    describe: 'responses → chat, JSON',
    dialect: 'translated',
    stream: false,
    model: PLAIN,
    connections: everywhere,
  },
  {
    name: 'translated-sse',
    describe: 'responses → chat, SSE',
    dialect: 'translated',
    stream: true,
    model: PLAIN,
    connections: everywhere,
  },
  {
    name: 'chat-sse-paced',
    describe: `chat, SSE, ${PACE_MS} ms between events`,
    dialect: 'chat',
    stream: true,
    model: PACED,
    connections: [10, 50],
  },
  {
    name: 'responses-sse-paced',
    describe: `responses, SSE, ${PACE_MS} ms between events`,
    dialect: 'responses',
    stream: true,
    model: PACED,
    connections: [10],
  },
  {
    name: 'translated-sse-paced',
    describe: `responses → chat, SSE, ${PACE_MS} ms between events`,
    dialect: 'translated',
    stream: true,
    model: PACED,
    connections: [10],
  },
  {
    name: 'chat-sse-burst',
    describe: 'chat, SSE, all events in one write',
    dialect: 'chat',
    stream: true,
    model: BURST,
    connections: [50],
  },
  {
    name: 'responses-sse-burst',
    describe: 'responses, SSE, all events in one write',
    dialect: 'responses',
    stream: true,
    model: BURST,
    connections: [50],
  },
];

const SYSTEM =
  'You are a careful assistant for the readers of a county archive. Answer briefly, name your sources, and say so when ' +
  'you do not know. Never invent a shelf mark.';
const QUESTION =
  'Which records would tell me who owned the mill at the lower bridge between the two surveys, and in which order ' +
  'should I look at them?';

export interface Asked {
  readonly server: Server;
  readonly key: string;
}

/**
 * The request for one piece of work. Translated responses are a chat request for the bare pass-through and for the
 * provider: it is what the provider has to do for the gateway, too.
 */
export function loadFor(
  work: Work,
  subject: Subject,
  { server, key }: Asked,
): Pick<Load, 'url' | 'body' | 'headers' | 'expect'> {
  const isGateway = subject === 'gateway' || subject === 'governed';
  const chat = work.dialect === 'chat' || (work.dialect === 'translated' && !isGateway);
  const prefix = isGateway ? (work.dialect === 'translated' ? 'llamacpp/' : 'openai/') : '';
  const model = `${prefix}${work.model}`;
  const stream = work.stream ? { stream: true } : {};
  const body = chat
    ? {
        model,
        messages: [
          { role: 'system', content: SYSTEM },
          { role: 'user', content: QUESTION },
        ],
        ...stream,
        ...(work.stream ? { stream_options: { include_usage: true } } : {}),
      }
    : { model, instructions: SYSTEM, input: QUESTION, ...stream };
  return {
    url: `${server.origin}/v1/${chat ? 'chat/completions' : 'responses'}`,
    body: JSON.stringify(body),
    headers: { authorization: `Bearer ${key}` },
    expect: work.stream ? (chat ? 'chat-sse' : 'responses-sse') : 'json',
  };
}
