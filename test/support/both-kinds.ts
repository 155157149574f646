/** A gateway with two providers: `llamacpp`, whose responses are translated, and `openai`, which has its own. */
import { afterAll, afterEach, expect } from 'vitest';
import {
  createSimulatedProvider,
  type SimulatedProvider,
  type SimulatedProviderOptions,
} from '../../infra/simulated-provider/server.ts';
import { gatewaysOfTests, workersOfTests } from './test-log.ts';
import { dataOf, exchangeOf, json, type StartedGateway, weather, withGateway } from './with-gateway.ts';

export const translated = 'llamacpp/simulated-small';
export const native = 'openai/simulated-small';
export const both = [
  ['translated', translated],
  ['native', native],
] as const;
/** The key that the gateway must send to `openai`. */
export const NATIVE_KEY = 'sk-native';
export const tools = [{ type: 'function', strict: true, ...weather }];

export interface BothKinds {
  readonly gateway: StartedGateway;
  /** The provider behind `openai`. */
  readonly nativeProvider: SimulatedProvider;
  /** Its base URL. */
  readonly nativeUrl: string;
  /** A response in one piece; translated unless `model` is given. */
  create(body: object): ReturnType<typeof json>;
  /** Each gateway has learned, with its first request, that a provider has no Responses API: faults are for those after it. */
  learned(): Promise<void>;
  /** A response as a stream, read to its end. */
  stream(body: object): Promise<{ text: string; events: ReturnType<typeof dataOf>; exchange: string }>;
  /** `GET /v1/responses/{id}`, and what is below it. */
  retrieve(id: string, below?: string): Promise<Response>;
}

/** @param native options of the provider behind `openai` */
export function withBothKinds(env: Record<string, string> = {}, native: SimulatedProviderOptions = {}): BothKinds {
  const nativeProvider = createSimulatedProvider({ apiKey: NATIVE_KEY, ...native });
  let url = '';
  const gateway = withGateway(async () => {
    url = await nativeProvider.listen();
    return {
      simulated: { responses: 'absent' },
      register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: NATIVE_KEY }),
      env,
    };
  });
  afterEach(() => nativeProvider.control.clear());
  afterAll(() => nativeProvider.close());
  return {
    gateway,
    nativeProvider,
    get nativeUrl() {
      return url;
    },
    async create(body) {
      const answer = await gateway.post('/v1/responses', { model: translated, ...body });
      expect(answer.status, await answer.clone().text()).toBe(200);
      return json(answer);
    },
    async learned() {
      for (let n = 0; n < gatewaysOfTests * workersOfTests; n++) {
        const answer = await gateway.post('/v1/responses', { model: translated, input: 'hi' });
        expect(answer.status, await answer.text()).toBe(200);
      }
    },
    async stream(body) {
      const answer = await gateway.post('/v1/responses', { model: translated, stream: true, ...body });
      expect(answer.status).toBe(200);
      const text = await answer.text();
      return { text, events: dataOf(text), exchange: exchangeOf(answer) };
    },
    retrieve: (id, below = '') => gateway.fetch(`/v1/responses/${id}${below}`),
  };
}
