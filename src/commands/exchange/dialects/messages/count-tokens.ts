/** The number of tokens of a Messages request, estimated where its provider does not count. */
import type { ModelCaller } from '../../../access/model-access.ts';
import { readJson } from '../../../model-request/read-json.ts';
import type { Reach } from '../../../model-request/routing-types.ts';
import type { Target } from '../../../model-request/target.ts';
import { countTokensDialect, estimatedTokens } from './count-tokens-dialect.ts';

/**
 * The gateway estimates without calling a provider, so nothing is recorded. Undefined for a model whose provider
 * counts itself, and for a request that guardrails read: it is an exchange.
 * @throws Refusal
 */
export async function estimatedCount(
  body: Buffer,
  caller: ModelCaller,
  router: Reach,
  isGuarded: (target: Target) => boolean,
): Promise<number | undefined> {
  const read = readJson(countTokensDialect, body);
  if (!read.ok) throw read.refusal;
  const { model, provider, json } = read.parsedRequest;
  const reached = await router.reach({ selector: model, provider, caller });
  return reached.some(isGuarded) ? undefined : estimatedTokens(json, reached);
}
