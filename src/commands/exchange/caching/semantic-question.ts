/** What a similar request must have in common with this one, and the text by which the two are compared. */
import type { SemanticCache } from '../../semantic-cache/semantic-cache.ts';
import type { CachePolicy } from '../policy.ts';
import { type DigestedRequest, partitionDigest } from './request-digest.ts';

export interface SemanticQuestion {
  readonly text: string;
  readonly partition: string;
}

export interface EmbeddedQuestion {
  readonly partition: string;
  readonly vector: Float32Array;
}

/**
 * With guardrails, the text is the one that they let pass, and both requests must be equal but for it.
 * @param dialect its name
 * @returns undefined for a request that must not be searched
 */
export function semanticQuestion(
  dialect: string,
  request: DigestedRequest,
  semantic: SemanticCache,
): SemanticQuestion | undefined {
  const own = semantic.textOf(dialect, request.json);
  if (own === undefined) return undefined;
  const sent = request.guarded === undefined ? undefined : semantic.textOf(dialect, request.guarded);
  if (request.guarded !== undefined && sent === undefined) return undefined;
  const rest = { ...request, json: own.rest, guarded: sent?.rest, space: semantic.space };
  const partition = partitionDigest(rest);
  return partition === undefined ? undefined : { text: sent?.text ?? own.text, partition };
}

/**
 * The least similarity of an answer. Where callers share answers that cannot see each other's, a request can only raise it:
 * otherwise one with a threshold of 0 would get the answers of others, on any subject.
 */
export function thresholdOf(
  given: number | undefined,
  { threshold }: SemanticCache['settings'],
  { scope }: Pick<CachePolicy, 'scope'>,
): number {
  if (given === undefined) return threshold;
  return scope === 'shared' ? Math.max(given, threshold) : given;
}
