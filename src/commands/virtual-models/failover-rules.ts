/** After which failures of one model another is asked. Pure. */
import type { RefusedTarget } from '../model-request/failed-target.ts';
import { CREDENTIALS_REFUSED } from '../model-request/refusal-from-upstream.ts';
import type { FailoverSetting } from './virtual-model.ts';

export interface FailoverPolicy {
  readonly enabled: boolean;
  /** How many models are asked at the most for one request; 0: all there are. */
  readonly maxModels: number;
  readonly statuses: readonly number[];
  /** Words of an error, in any case; `*` stands for anything between two words. */
  readonly phrases: readonly string[];
}

/**
 * What another model may well answer although its status says that the request is at fault: the model is not there (any
 * more), the conversation is too long for it, or somebody's credit with its provider is used up.
 */
export const defaultPhrases: readonly string[] = [
  'model_not_found',
  'model*not found',
  'model*does not exist',
  'model*not supported',
  'model*unsupported',
  'model*unavailable',
  'model*not available',
  'model*deprecated',
  'model*retired',
  'model*decommissioned',
  'model*disabled',
  'model*overloaded',
  'upstream*failed',
  'upstream*unavailable',
  'upstream*timed out',
  'context_length',
  'context length',
  'context window',
  'prompt is too long',
  'exceed*context size',
  'insufficient_quota',
  'exceeded*quota',
  'quota exceeded',
  'credit balance',
];

/** The rules of one virtual model: its own, and for what it does not say those for all. */
export class FailoverRules {
  readonly enabled: boolean;
  readonly #statuses: ReadonlySet<number>;
  readonly #phrases: readonly (readonly string[])[];

  constructor(all: FailoverPolicy, own: FailoverSetting) {
    this.enabled = all.enabled && own.enabled;
    this.#statuses = new Set(own.statuses ?? all.statuses);
    this.#phrases = (own.phrases ?? all.phrases).map((phrase) =>
      phrase
        .toLowerCase()
        .split('*')
        .map((part) => part.trim())
        .filter((part) => part !== ''),
    );
  }

  /**
   * A provider that gave no answer at all, or refuses the gateway's credential, is always failed over from, but for one
   * whose answer was too large.
   */
  covers({ status, failure, refusal }: RefusedTarget): boolean {
    if (status === undefined) return failure !== 'too_large';
    if (refusal.code === CREDENTIALS_REFUSED) return true;
    if (this.#statuses.has(status)) return true;
    if (this.#phrases.length === 0) return false;
    const said = `${refusal.code ?? ''} ${refusal.message}`.toLowerCase();
    return this.#phrases.some((parts) => has(said, parts));
  }
}

/** Whether the parts are there, one behind another. */
function has(said: string, parts: readonly string[]): boolean {
  let from = 0;
  for (const part of parts) {
    const at = said.indexOf(part, from);
    if (at === -1) return false;
    from = at + part.length;
  }
  return true;
}
