/** After which failures of one model another is called. Pure. */
import type { RefusedTarget } from '../model-request/failed-target.ts';
import { CREDENTIALS_REFUSED } from '../model-request/refusal-from-upstream.ts';
import type { FailoverSetting } from './virtual-model.ts';

export interface FailoverPolicy {
  readonly enabled: boolean;
  /** Maximum number of models called for one request; 0 for all. */
  readonly maxModels: number;
  readonly statuses: readonly number[];
  /** Phrases of an error message, ignoring case; `*` stands for any text between two parts. */
  readonly phrases: readonly string[];
}

/**
 * Errors that another model may not have, although the status says that the request is at fault: the model does not
 * exist (any more), the conversation exceeds its context, or the credit at its provider is used up.
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

/** The rules of one virtual model: its own, completed by the global ones. */
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
   * Failover always follows when a provider gave no answer or refused the gateway's credential, except when its
   * answer was too large.
   */
  covers({ status, failure, refusal }: RefusedTarget): boolean {
    if (status === undefined) return failure !== 'too_large';
    if (refusal.code === CREDENTIALS_REFUSED) return true;
    if (this.#statuses.has(status)) return true;
    if (this.#phrases.length === 0) return false;
    const errorText = `${refusal.code ?? ''} ${refusal.message}`.toLowerCase();
    return this.#phrases.some((parts) => has(errorText, parts));
  }
}

/** Whether the text contains the parts, one after another. */
function has(errorText: string, parts: readonly string[]): boolean {
  let from = 0;
  for (const part of parts) {
    const at = errorText.indexOf(part, from);
    if (at === -1) return false;
    from = at + part.length;
  }
  return true;
}
