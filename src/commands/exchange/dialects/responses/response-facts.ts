/** The facts of a native response that its events have contained so far. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import type { DeferredWork } from '../../../model-request/deferred-work.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { type Refusal, refusals } from '../../../refusal.ts';
import { isPending } from '../../../responses/storable-response.ts';

const TERMINAL = new Set(['response.completed', 'response.incomplete', 'response.failed']);

/** The content of the provider's `error` event, after which `response.failed` has to follow. */
export interface ReportedError {
  readonly code: string;
  readonly message: string;
}

export class ResponseFacts {
  /** Name of the instance. */
  readonly provider: string;
  readonly #providerRuns: boolean;
  /** The newest response object. */
  response: JsonObject | undefined;
  /** The provider's own id of the response. */
  answerId: string | undefined;
  ended = false;
  reported: ReportedError | undefined;

  /**
   * @param providerRuns whether the provider continues a response whose stream ends early, as it does for background
   * responses
   */
  constructor(provider: string, providerRuns = false) {
    this.provider = provider;
    this.#providerRuns = providerRuns;
  }

  note(event: JsonObject): void {
    const { type, response } = event;
    if (type === 'error') {
      this.reported = this.#errorIn(event);
    } else if (isObject(response)) {
      this.response = response;
      if (typeof type === 'string' && TERMINAL.has(type)) this.ended = true;
    }
  }

  usage(): TokenUsage {
    return readUsage(this.response?.['usage']);
  }

  deferredWork(): DeferredWork | undefined {
    const { id, status } = this.response ?? {};
    if (!this.#providerRuns || this.reported !== undefined) return undefined;
    if (typeof id !== 'string' || typeof status !== 'string') return undefined;
    return isPending({ status }) ? { kind: 'response', id } : undefined;
  }

  #errorIn(event: JsonObject): ReportedError {
    const { code, message } = isObject(event['error']) ? event['error'] : event;
    return {
      code: typeof code === 'string' ? code : 'provider_error',
      message: typeof message === 'string' ? message : `The provider '${this.provider}' reported an error.`,
    };
  }
}

/** @throws Refusal when a whole answer is not a response */
export function checkedResponse(answer: unknown, provider: string): JsonObject {
  if (isObject(answer) && (Array.isArray(answer.output) || typeof answer.status === 'string')) return answer;
  throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer that is not a response.`);
}

/** Ids of providers are shorter. */
const MAX_ID_LENGTH = 256;

/** The refusal of a response with an id under which it cannot be stored; undefined for every other one. */
export function unusableId({ id }: JsonObject, provider: string): Refusal | undefined {
  if (typeof id !== 'string' || (id.length <= MAX_ID_LENGTH && id.isWellFormed())) return undefined;
  const why = id.length > MAX_ID_LENGTH ? `has ${id.length} characters` : 'is not well-formed Unicode';
  return refusals.badAnswer(provider, `The provider '${provider}' gave a response whose id ${why}.`);
}
