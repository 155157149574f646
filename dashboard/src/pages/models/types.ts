/** Rows of the admin API on this page. */
import type { Answer } from '../../api/client.ts';

export type ModelRow = Answer<'/admin/models'>[number];
export type VirtualModelRow = Answer<'/admin/virtual-models'>[number];
export type VirtualTarget = NonNullable<VirtualModelRow['targets']>[number];
export type PriceOverride = Answer<'/admin/model-pricing-overrides'>[number];
export type ProviderStatus = Answer<'/admin/providers/status'>['providers'][number];
export type Credential = Answer<'/admin/provider-credentials'>[number];
export type CredentialType = Answer<'/admin/provider-credentials/types'>[number];
