/**
 * Model calls by guardrails. A call is a request like any other: it is routed, recorded, priced and counted at its own
 * user path. Guardrails do not run for it, so no call causes another.
 */
import { isObject } from '../../json/is-object.ts';
import { type ModelAnswer, type ModelCall, ModelCallFailed } from '../guardrails/guardrail-type.ts';
import { parseChunk } from '../model-request/parse-chunk.ts';
import { Refusal } from '../refusal.ts';
import { AuxiliaryExchanges, type AuxiliaryExchangesOptions, auxiliaryRequest } from './auxiliary-exchanges.ts';

export class AuxiliaryCalls {
  readonly #exchanges: AuxiliaryExchanges;

  constructor(options: AuxiliaryExchangesOptions) {
    this.#exchanges = new AuxiliaryExchanges(options);
  }

  /** Rejects at once when the signal is aborted; the exchange then ends by itself. */
  async call(call: ModelCall): Promise<ModelAnswer> {
    const { signal, model } = call;
    const ended = await this.#exchanges.run(requestOf(call), signal);
    switch (ended.end) {
      case 'cancelled':
        throw new ModelCallFailed(`the call of the model '${model}' was cancelled`, ended.exchangeId);
      case 'beyond_limit': {
        const { limit } = this.#exchanges;
        throw new ModelCallFailed(
          `the model '${model}' was not called: guardrails run ${limit} calls of models already, which is the limit`,
        );
      }
      case 'answered':
        return answerIn(ended.content, model, ended.exchangeId);
    }
  }

  /** The gateway stops without waiting for the calls. */
  cut(): void {
    this.#exchanges.cut();
  }
}

function requestOf({ requestId, exchangeId, userPath, model, provider, messages, maxTokens, temperature }: ModelCall) {
  const body = {
    model,
    ...(provider !== undefined && { provider }),
    messages,
    max_tokens: maxTokens,
    ...(temperature !== undefined && { temperature }),
  };
  return auxiliaryRequest({ requestId, causationId: exchangeId, userPath, path: '/v1/chat/completions', body });
}

/** @throws ModelCallFailed when there is no text */
function answerIn(content: Uint8Array | Refusal, model: string, exchangeId: string): ModelAnswer {
  const failed = (why: string) => new ModelCallFailed(`the call of the model '${model}' failed: ${why}`, exchangeId);
  if (content instanceof Refusal) {
    const { code, message, status, provider } = content;
    // The message of a provider may repeat texts of the request. It is in the record of the exchange.
    throw failed(`${status}${code === null ? '' : ` ${code}`}${provider === undefined ? `: ${message}` : ''}`);
  }
  const choice = firstChoice(content);
  if (choice === undefined) throw failed('the answer is no chat completion');
  const { message, finish_reason } = choice;
  const text = isObject(message) ? textOf(message['content']) : undefined;
  if (text === undefined || text === '') {
    if (isObject(message) && typeof message['refusal'] === 'string') throw failed('the model refused');
    throw failed(`the answer has no text (finish_reason ${JSON.stringify(finish_reason)})`);
  }
  return { text, isCut: finish_reason === 'length', exchangeId };
}

function firstChoice(content: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  const choices = parseChunk(Buffer.from(content.buffer, content.byteOffset, content.length).toString())?.['choices'];
  const first: unknown = Array.isArray(choices) ? choices[0] : undefined;
  return isObject(first) ? first : undefined;
}

/** Some providers answer with a list of parts. */
function textOf(content: unknown): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  return content
    .map((part: unknown) => (isObject(part) && typeof part['text'] === 'string' ? part['text'] : ''))
    .join('');
}
