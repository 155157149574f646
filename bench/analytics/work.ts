/** The gateway's work while analytics is measured: chat requests that the simulated provider answers. */
import type { Load } from '../load/load.ts';
import { GATEWAY_KEY } from '../servers/gateway.ts';
import type { Server } from '../servers/launch.ts';

const MODELS = {
  'chat-json': 'simulated-small',
  'chat-sse': 'simulated-small',
  'chat-sse-burst': 'simulated-small-burst',
};

/** `chat-sse-burst`: all events of a stream in one write. */
export type AnalyticsWork = keyof typeof MODELS;

/** The models that the simulated provider has to have. */
export const SIMULATED_MODELS: readonly string[] = [...new Set(Object.values(MODELS))];

export function requestFor(
  { origin }: Server,
  work: AnalyticsWork,
): Pick<Load, 'url' | 'body' | 'headers' | 'expect' | 'stream'> {
  const stream = work !== 'chat-json';
  const messages = [
    { role: 'system', content: 'You are a careful assistant for the readers of a county archive. Answer briefly.' },
    { role: 'user', content: 'Which records would tell me who owned the mill at the lower bridge?' },
  ];
  return {
    url: `${origin}/v1/chat/completions`,
    body: JSON.stringify({
      model: `openai/${MODELS[work]}`,
      messages,
      ...(stream ? { stream, stream_options: { include_usage: true } } : {}),
    }),
    headers: { authorization: `Bearer ${GATEWAY_KEY}` },
    stream,
    expect: { end: stream ? 'data: [DONE]' : '}' },
  };
}
