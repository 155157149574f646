/** How many tokens a Messages request would cost, where its provider cannot say. */
import type { Asker } from '../access/model-access.ts';
import { countTokensDialect } from '../exchange/count-tokens-dialect.ts';
import { speaksMessages } from '../exchange/messages-dialect.ts';
import { readJson } from '../exchange/read-json.ts';
import type { Reach } from '../exchange/route.ts';
import { estimateInputTokens } from './token-estimate.ts';

/**
 * An estimate, made here: no provider is called and nothing happens that would have to be on the record. Undefined
 * for a model whose provider counts itself.
 * @throws Refusal
 */
export async function estimatedCount(body: Buffer, caller: Asker, router: Reach): Promise<number | undefined> {
  const read = readJson(countTokensDialect, body);
  if (!read.ok) throw read.refusal;
  const { model, provider, json } = read.asked;
  const reached = await router.reach({ selector: model, provider, caller });
  if (reached.some((target) => speaksMessages(target.provider.type))) return undefined;
  return estimateInputTokens(json);
}
