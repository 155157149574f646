import type { Answer } from '../../api/client.ts';

export type PriceOverride = Answer<'/admin/model-pricing-overrides'>[number];
