/** A gateway with two providers: `llamacpp`, for which messages are translated, and `anthropic`, which accepts them. */
import { afterAll, afterEach, expect } from 'vitest';
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { MASTER_KEY } from './gateway.ts';
import { dataOf, exchangeOf, json, type StartedGateway, withGateway } from './with-gateway.ts';

export const translated = 'llamacpp/simulated-small';
export const native = 'anthropic/simulated-small';
export const both = [
  ['translated', translated],
  ['native', native],
] as const;
/** The key that the gateway must send to `anthropic`. */
export const ANTHROPIC_KEY = 'sk-ant-simulated';
export const weatherTool = {
  name: 'get_weather',
  description: 'The weather in a city',
  input_schema: {
    type: 'object' as const,
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  },
};

/** Headers that Anthropic's clients always send. */
export const headers = { 'x-api-key': MASTER_KEY, 'anthropic-version': '2023-06-01' };

export interface MessageKinds {
  readonly gateway: StartedGateway;
  /** The provider behind `anthropic`. */
  readonly anthropic: SimulatedProvider;
  post(body: object, more?: Record<string, string>, path?: string): Promise<Response>;
  /** A message in one piece. */
  create(body: object): ReturnType<typeof json>;
  /** A message as a stream, read to its end. */
  stream(body: object): Promise<{ text: string; events: ReturnType<typeof dataOf>; exchange: string }>;
}

export function withMessageKinds(env: Record<string, string> = {}): MessageKinds {
  const anthropic = createSimulatedProvider({ apiKey: ANTHROPIC_KEY });
  const gateway = withGateway(async () => {
    const url = await anthropic.listen();
    return {
      simulated: { responses: 'absent' },
      register: (own) => ({ LLAMACPP_BASE_URL: own, ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: ANTHROPIC_KEY }),
      env,
    };
  });
  afterEach(() => anthropic.control.clear());
  afterAll(() => anthropic.close());
  const kinds: MessageKinds = {
    gateway,
    anthropic,
    post: (body, more = {}, path = '/v1/messages') =>
      fetch(`${gateway.url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers, ...more },
        body: JSON.stringify(body),
      }),
    async create(body) {
      const answer = await kinds.post({ max_tokens: 1000, ...body });
      expect(answer.status, await answer.clone().text()).toBe(200);
      return json(answer);
    },
    async stream(body) {
      const answer = await kinds.post({ max_tokens: 1000, stream: true, ...body });
      expect(answer.status, await (answer.ok ? '' : answer.clone().text())).toBe(200);
      expect(answer.headers.get('content-type')).toMatch(/^text\/event-stream/);
      const text = await answer.text();
      return { text, events: dataOf(text), exchange: exchangeOf(answer) };
    },
  };
  return kinds;
}
