/** The defaults of a gateway without configuration. */
import type { KeyDirectory } from '../../src/commands/access/key-directory.ts';
import type { ModelAccess, ModelPolicies } from '../../src/commands/access/model-access.ts';
import type { Pricing } from '../../src/commands/pricing/pricing.ts';

/** No restriction is set. */
export const everythingAllowed: ModelAccess = {
  allows: () => true,
  denial: () => undefined,
  restricts: () => false,
  allowsProvider: () => true,
};

export const noModelPolicies: ModelPolicies = {
  any: false,
  allows: () => true,
  allowsProvider: () => true,
  deciding: () => undefined,
};

/** There are no managed keys. */
export const noKeys: Pick<KeyDirectory, 'byId'> = { byId: () => undefined };

/** No price is known. */
export const unpriced: Pricing = { costOf: () => ({ inputCost: null, outputCost: null, totalCost: null }) };
