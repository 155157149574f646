/** The number of tokens of a Messages request, estimated where its provider does not count. */
import type { ModelCaller } from '../../../access/model-access.ts';
import { estimateInputTokens } from '../../../messages/token-estimate.ts';
import { readJson } from '../../../model-request/read-json.ts';
import type { Reach } from '../../../model-request/routing-types.ts';
import { countTokensDialect } from './count-tokens-dialect.ts';
import { speaksMessages } from './messages-dialect.ts';

/**
 * The gateway estimates without calling a provider, so nothing is recorded. Undefined for a model whose provider
 * counts itself.
 * @throws Refusal
 */
export async function estimatedCount(body: Buffer, caller: ModelCaller, router: Reach): Promise<number | undefined> {
  const read = readJson(countTokensDialect, body);
  if (!read.ok) throw read.refusal;
  const { model, provider, json } = read.parsedRequest;
  const reached = await router.reach({ selector: model, provider, caller });
  if (reached.some((target) => speaksMessages(target.provider.type))) return undefined;
  return estimateInputTokens(json);
}
