/** The cost of a response that its provider made in the background. Pure. */
import { isObject } from '../../json/is-object.ts';
import { missingTokens } from '../exchange/record/spending.ts';
import { promptTokens, tokensInText } from '../model-request/token-estimate.ts';
import { isReported, readUsage } from '../model-request/usage.ts';
import type { OpenWork, WorkOutcome } from './open-work.ts';
import type { WorkSpent } from './settle-work.ts';

/**
 * A failed response costs nothing, unless its provider reports a cost. A cancelled one may have been generated to its
 * end: it is charged by the estimate, or by its reported usage if that is more.
 */
export function responseSpent(
  { model, parts }: OpenWork,
  outcome: WorkOutcome,
  response: Readonly<Record<string, unknown>>,
): readonly WorkSpent[] {
  const usage = readUsage(response.usage);
  if (isReported(usage)) return [{ model, usage }];
  if (outcome === 'failed') return [];
  const inputTokens = parts?.reduce((sum, part) => sum + part.inputTokens, 0) ?? 0;
  const expected = parts?.reduce((sum, part) => sum + part.outputTokens, 0) ?? 0;
  const estimatedTokens = tokensSaid(response.output);
  const outputTokens = outcome === 'cancelled' ? Math.max(estimatedTokens, expected) : estimatedTokens;
  return [{ model, usage, estimate: missingTokens(usage, inputTokens, outputTokens, true) }];
}

function tokensSaid(output: unknown): number {
  if (!Array.isArray(output)) return 0;
  return output.reduce<number>((sum, item) => sum + (isObject(item) ? itemTokens(item) : 0), 0);
}

function itemTokens({ content, summary, arguments: call }: Readonly<Record<string, unknown>>): number {
  if (typeof call === 'string') return tokensInText(call);
  return promptTokens([content, summary].flat().map((part) => (isObject(part) ? part.text : undefined)));
}
