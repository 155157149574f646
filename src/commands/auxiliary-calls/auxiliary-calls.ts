/**
 * Model calls by guardrails. A call is a request like any other: it is routed, recorded, priced and counted at its own
 * user path. Guardrails do not run for it, so no call causes another.
 */
import type { UserPath } from '../../events/event.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { type ModelAnswer, type ModelCall, ModelCallFailed } from '../guardrails/guardrail-type.ts';
import type { Client, EndReason } from '../model-request/client.ts';
import type { ModelRequest } from '../model-request/model-request.ts';
import { Refusal } from '../refusal.ts';
import { everything } from '../visibility.ts';
import { CollectingClient } from './collecting-client.ts';

export interface AuxiliaryCallsOptions {
  /**
   * Runs a chat completion as the exchange with this id. Resolves when it has ended; never rejects. Bounds the size of
   * the answer.
   */
  run(exchangeId: string, request: ModelRequest, client: Client): Promise<void>;
  newId(): string;
  /** Calls at the same time; further ones fail. */
  readonly limit: number;
}

export class AuxiliaryCalls {
  readonly #options: AuxiliaryCallsOptions;
  readonly #running = new Set<CollectingClient>();

  constructor(options: AuxiliaryCallsOptions) {
    this.#options = options;
  }

  /** Rejects at once when the signal is aborted; the exchange then ends by itself. */
  async call(call: ModelCall): Promise<ModelAnswer> {
    const { signal, model } = call;
    const { run, newId, limit } = this.#options;
    if (signal.aborted) throw new ModelCallFailed(cancelled(model));
    if (this.#running.size >= limit) {
      throw new ModelCallFailed(
        `the model '${model}' was not called: guardrails run ${limit} calls of models already, which is the limit`,
      );
    }
    const exchangeId = newId();
    const client = new CollectingClient();
    this.#running.add(client);
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => {
      client.endEarly(endReasonOf(signal.reason));
      aborted.reject(new ModelCallFailed(cancelled(model), exchangeId));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    void run(exchangeId, requestOf(call), client).finally(() => this.#running.delete(client));
    try {
      return answerIn(await Promise.race([client.whenAnswered, aborted.promise]), model, exchangeId);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** The gateway stops without waiting for the calls. */
  cut(): void {
    for (const client of this.#running) client.endEarly('gateway_stopping');
  }
}

function cancelled(model: string): string {
  return `the call of the model '${model}' was cancelled`;
}

const endReasons: readonly unknown[] = ['client_gone', 'gateway_stopping', 'cancelled'] satisfies EndReason[];

function isEndReason(reason: unknown): reason is EndReason {
  return endReasons.includes(reason);
}

/** A signal is aborted by the client of the guarded request, or by a time limit. */
function endReasonOf(reason: unknown): EndReason {
  return isEndReason(reason) ? reason : 'cancelled';
}

function requestOf({
  requestId,
  userPath,
  model,
  provider,
  messages,
  maxTokens,
  temperature,
}: ModelCall): ModelRequest {
  const body = {
    model,
    ...(provider !== undefined && { provider }),
    messages,
    max_tokens: maxTokens,
    ...(temperature !== undefined && { temperature }),
  };
  return {
    caller: {
      actor: 'system',
      userPath: userPath as UserPath,
      authMethod: 'no_key',
      sight: everything,
      origin: 'plugin',
    },
    requestId,
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(body)),
  };
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
  let json: unknown;
  try {
    json = parseExactly(Buffer.from(content.buffer, content.byteOffset, content.length).toString());
  } catch {
    return undefined;
  }
  const choices: unknown = isObject(json) ? json['choices'] : undefined;
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
