/** Where the targets of virtual models lead: the models that serve them, and the state of those. Pure. */
import type { ModelRow, ProviderStatus, VirtualModelRow, VirtualTarget } from './types.ts';

export type ListedModel = Pick<ModelRow, 'provider_name' | 'provider_type' | 'selector' | 'model'>;

/** `<provider>/<model>`, or the model alone. */
export function targetText({ provider, model }: VirtualTarget): string {
  return provider === undefined ? model : `${provider}/${model}`;
}

/** The target of a text in which a known provider may precede the model. @param providers names and types */
export function targetOf(text: string, providers: ReadonlySet<string>): { provider?: string; model: string } {
  const trimmed = text.trim();
  const slash = trimmed.indexOf('/');
  const provider = trimmed.slice(0, Math.max(0, slash));
  return providers.has(provider) ? { provider, model: trimmed.slice(slash + 1) } : { model: trimmed };
}

/** The listed models that can answer for a target. */
export function modelsOf<Row extends ListedModel>({ provider, model }: VirtualTarget, models: readonly Row[]): Row[] {
  return models.filter(
    (row) =>
      row.model.id === model &&
      (provider === undefined || row.provider_name === provider || row.provider_type === provider),
  );
}

/** Tones of `Badge`. */
type HealthTone = 'ok' | 'warn' | 'bad' | 'plain';

export interface TargetHealth {
  readonly tone: HealthTone;
  readonly label: string;
  readonly reason: string | undefined;
}

/** The state of the best provider that serves the target now. */
export function targetHealth(
  target: VirtualTarget,
  models: readonly ListedModel[],
  providers: readonly ProviderStatus[],
  virtualNames: ReadonlySet<string>,
): TargetHealth {
  if (target.provider === undefined && virtualNames.has(target.model)) {
    return { tone: 'plain', label: 'Virtual model', reason: undefined };
  }
  const serving = new Set(modelsOf(target, models).map(({ provider_name }) => provider_name));
  const states = providers.filter(({ name }) => serving.has(name)).map(stateOf);
  const best = ranks.map((tone) => states.find((state) => state.tone === tone)).find((state) => state !== undefined);
  return best ?? { tone: 'bad', label: 'Not served', reason: 'No provider lists this model now.' };
}

const ranks: readonly HealthTone[] = ['ok', 'warn', 'bad'];

export const healthTones: Readonly<Record<ProviderStatus['status'], HealthTone>> = {
  healthy: 'ok',
  degraded: 'warn',
  unhealthy: 'bad',
};

function stateOf({ status, status_label, status_reason, last_error }: ProviderStatus): TargetHealth {
  return {
    tone: healthTones[status],
    label: status_label,
    reason: status === 'healthy' ? undefined : (last_error ?? status_reason),
  };
}

export interface LostTargets {
  readonly models: readonly string[];
  /** Virtual models that keep another target. */
  readonly fewer: readonly string[];
  /** Virtual models that no provider serves any more. */
  readonly none: readonly string[];
}

/** What a provider takes with it. Chains of virtual models are followed to their names only. */
export function lostWith(
  provider: string,
  models: readonly ListedModel[],
  virtualModels: readonly Pick<VirtualModelRow, 'source' | 'targets'>[],
): LostTargets {
  const names = new Set(virtualModels.map(({ source }) => source));
  const left = models.filter(({ provider_name }) => provider_name !== provider);
  const isServed = (target: VirtualTarget, by: readonly ListedModel[]) =>
    (target.provider === undefined && names.has(target.model)) || modelsOf(target, by).length > 0;
  const losing = virtualModels.filter(({ targets = [] }) =>
    targets.some((target) => isServed(target, models) && !isServed(target, left)),
  );
  const keepsOne = ({ targets = [] }: Pick<VirtualModelRow, 'targets'>) => targets.some((one) => isServed(one, left));
  return {
    models: models.filter(({ provider_name }) => provider_name === provider).map(({ selector }) => selector),
    fewer: losing.filter(keepsOne).map(({ source }) => source),
    none: losing.filter((one) => !keepsOne(one)).map(({ source }) => source),
  };
}
