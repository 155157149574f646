/** How many tokens a Messages request would cost, where its provider cannot say. */
import { countTokensDialect } from '../exchange/count-tokens-dialect.ts';
import { speaksMessages } from '../exchange/messages-dialect.ts';
import { readJson } from '../exchange/read-json.ts';
import type { ModelDirectory } from '../exchange/route.ts';
import { refusals } from '../refusal.ts';
import { estimateInputTokens } from './token-estimate.ts';

/**
 * An estimate, made here: no provider is called and nothing happens that would have to be on the record. Undefined
 * for a model whose provider counts itself.
 * @throws Refusal
 */
export async function estimatedCount(body: Buffer, models: ModelDirectory): Promise<number | undefined> {
  const read = readJson(countTokensDialect, body);
  if (!read.ok) throw read.refusal;
  const { model, provider, json } = read.asked;
  if (provider !== undefined && !models.knows(provider)) throw refusals.unknownProvider(provider);
  const target = models.resolve(model, provider) ?? (await models.resolveOrRefresh(model, provider));
  if (target === undefined) throw refusals.modelNotFound(model);
  if (speaksMessages(target.provider.type)) return undefined;
  return estimateInputTokens(json);
}
