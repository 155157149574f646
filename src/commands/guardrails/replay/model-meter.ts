/** The services of guardrails in a run: their calls are counted, priced before and after, and made at one user path. */
import { tokensInText } from '../../model-request/token-estimate.ts';
import type { ModelRates } from '../../pricing/pricing.ts';
import { type GuardrailServices, type ModelCall, ModelCallFailed } from '../guardrail-type.ts';
import type { OtherServices } from './draft.ts';

export type RatesOf = (call: Pick<ModelCall, 'model' | 'provider'>) => ModelRates | undefined;

export class ModelMeter {
  readonly #ratesOf: RatesOf;
  readonly #exchanges: string[] = [];
  #calls = 0;
  #dollars: number | undefined = 0;

  constructor(ratesOf: RatesOf) {
    this.#ratesOf = ratesOf;
  }

  get calls(): number {
    return this.#calls;
  }

  /** The exchanges that are the records of the calls. */
  get exchanges(): readonly string[] {
    return this.#exchanges;
  }

  /** US dollars; undefined when the price of a model is unknown. */
  get dollars(): number | undefined {
    return this.#dollars;
  }

  /** Services that call nothing: each call counts with the longest answer that it allows. */
  estimating(services: GuardrailServices): GuardrailServices {
    return {
      ...services,
      callModel: async (call) => {
        this.#note(call, call.maxTokens);
        return { text: '{"verdict":"allow"}', isCut: false, exchangeId: '' };
      },
      // Of an analyzer that finds nothing.
      fetch: async () => ({ status: 200, text: async () => '[]' }),
    };
  }

  /** The services with their calls counted, all below `path`. */
  counting(path: string): OtherServices {
    return (services) => ({
      ...services,
      callModel: async (call) => {
        const { userPath } = call;
        const own = `${path}${userPath.slice(userPath.lastIndexOf('/guardrails/'))}`;
        try {
          const answer = await services.callModel({ ...call, userPath: own });
          this.#note(call, tokensInText(answer.text), answer.exchangeId);
          return answer;
        } catch (error) {
          const exchangeId = error instanceof ModelCallFailed ? error.exchangeId : undefined;
          if (exchangeId !== undefined) this.#note(call, 0, exchangeId);
          throw error;
        }
      },
    });
  }

  #note(call: ModelCall, outputTokens: number, exchangeId?: string): void {
    this.#calls += 1;
    if (exchangeId !== undefined) this.#exchanges.push(exchangeId);
    const rates = this.#ratesOf(call);
    const inputTokens = call.messages.reduce((sum, { content }) => sum + tokensInText(content), 0);
    const dollars = rates === undefined ? undefined : costOf(rates, inputTokens, outputTokens);
    this.#dollars = dollars === undefined || this.#dollars === undefined ? undefined : this.#dollars + dollars;
  }
}

function costOf({ inputPerMtok, outputPerMtok, perRequest }: ModelRates, input: number, output: number) {
  if (inputPerMtok === undefined || outputPerMtok === undefined) return undefined;
  return (input * inputPerMtok + output * outputPerMtok) / 1e6 + perRequest;
}
