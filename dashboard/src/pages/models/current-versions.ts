/** What actions on prices, providers and virtual models are based on. */
import { ApiError, getAnswer } from '../../api/client.ts';
import type { Basis } from '../../ui/changed-meanwhile.tsx';
import type { CurrentVersion } from '../../ui/conflict-view.tsx';
import type { PriceOverride } from './price-override.ts';
import { withoutSecrets } from './provider-fields.ts';
import type { Credential, VirtualModelRow } from './types.ts';

export function priceBasis({ selector, pricing, revision }: PriceOverride): Basis {
  return { revision, shown: pricing, readCurrent: () => currentPrice(selector) };
}

/** `version` is null when there is none. */
export async function currentPrice(selector: string): Promise<CurrentVersion> {
  const at = `/admin/model-pricing-overrides/${encodeURIComponent(selector)}`;
  try {
    const { revision, pricing } = await getAnswer({ of: '/admin/model-pricing-overrides/{selector}', at });
    return { revision, version: pricing };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return { revision: undefined, version: null };
    throw error;
  }
}

export function providerBasis(row: Credential): Basis {
  const at = `/admin/provider-credentials/${encodeURIComponent(row.name)}`;
  return {
    ...{ revision: row.revision, shown: providerVersion(row) },
    async readCurrent() {
      const now = await getAnswer({ of: '/admin/provider-credentials/{name}', at });
      return { revision: now.revision, version: providerVersion(now) };
    },
  };
}

/** The settings, without secrets. */
function providerVersion({ managed, problem, updated_at, revision, ...settings }: Credential) {
  return withoutSecrets(settings);
}

export function virtualModelBasis(row: VirtualModelRow): Basis {
  const at = `/admin/virtual-models/${encodeURIComponent(row.source)}`;
  return {
    ...{ revision: row.revision, shown: virtualModelVersion(row) },
    async readCurrent() {
      const now = await getAnswer({ of: '/admin/virtual-models/{source}', at });
      return { revision: now.revision, version: virtualModelVersion(now) };
    },
  };
}

/** What administrators change, without what follows from it. */
function virtualModelVersion({ source, targets, strategy, strategy_plugin, strategy_config, ...row }: VirtualModelRow) {
  const { session_affinity, failover, user_paths, description, enabled } = row;
  return {
    ...{ source, targets, strategy, strategy_plugin, strategy_config },
    ...{ session_affinity, failover, user_paths, description, enabled },
  };
}
