/** The providers behind the gateway. They outlive it, and record the calls that reached them. */
import { createSimulatedProvider, type SimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { createSocketProvider, OVER_SOCKET } from '../support/socket-provider.ts';
import type { ProviderCall, ProviderName } from './evidence.ts';
import { MODELS } from './load.ts';

const NAMES: readonly ProviderName[] = ['llamacpp', 'openai'];

export class Upstreams {
  readonly #providers: Readonly<Record<ProviderName, SimulatedProvider>>;
  /** Whose `/v1/responses` accepts WebSockets. */
  readonly #openai: ReturnType<typeof createSocketProvider>;
  #reported: Record<ProviderName, number> = { llamacpp: 0, openai: 0 };

  constructor() {
    const shape = { models: MODELS, words: 24, remember: Number.POSITIVE_INFINITY };
    this.#openai = createSocketProvider({ ...shape, responses: 'native' });
    this.#providers = {
      llamacpp: createSimulatedProvider({ ...shape, responses: 'absent' }),
      openai: this.#openai.simulated,
    };
  }

  /** @returns the variables that make a gateway use them; after each call they arrive on ports of their own */
  async listen(): Promise<Record<string, string>> {
    return {
      LLAMACPP_BASE_URL: await this.#providers.llamacpp.listen(),
      OPENAI_BASE_URL: await this.#openai.listen(),
      OPENAI_API_KEY: 'sk-simulated',
    };
  }

  /** The calls since the last call of this method. */
  newCalls(): ProviderCall[] {
    return NAMES.flatMap((provider) => {
      const { requests } = this.#providers[provider];
      // A message on a WebSocket has no request id.
      const fresh = requests
        .slice(this.#reported[provider])
        .filter(({ headers }) => headers[OVER_SOCKET] === undefined);
      this.#reported = { ...this.#reported, [provider]: requests.length };
      return fresh.map(({ method, path, headers, body, port, at, outcome, framesSent }) => {
        const id = headers['x-request-id'];
        const requestId = typeof id === 'string' ? id : undefined;
        return { provider, method, path, requestId, body, port, at, isAnswered: outcome === 'answered', framesSent };
      });
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#providers.llamacpp.close(), this.#openai.close()]);
  }
}
