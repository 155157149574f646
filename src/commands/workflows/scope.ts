/** The requests that a workflow is for: all, or those of a user path, of a provider, or of a model of a provider. */

export interface WorkflowScope {
  /** The name of a provider instance. */
  readonly provider?: string | undefined;
  /** The provider's own id of a model. Only together with a provider. */
  readonly model?: string | undefined;
  /** The path with everything below it. */
  readonly userPath?: string | undefined;
}

export type ScopeType = 'global' | 'provider' | 'provider_model' | 'path' | 'provider_path' | 'provider_model_path';

export function scopeType({ provider, model, userPath }: WorkflowScope): ScopeType {
  const isOfPath = userPath !== undefined;
  if (provider === undefined) return isOfPath ? 'path' : 'global';
  if (model === undefined) return isOfPath ? 'provider_path' : 'provider';
  return isOfPath ? 'provider_model_path' : 'provider_model';
}

/** Unique for each scope: no part contains `:`. */
export function scopeKey(scope: WorkflowScope): string {
  const { provider, model, userPath } = scope;
  return [scopeType(scope), provider, model, userPath].filter((part) => part !== undefined).join(':');
}

/** For readers: `global`, `/team`, `openai/gpt-4o @ /team`. */
export function scopeDisplay({ provider, model, userPath }: WorkflowScope): string {
  if (provider === undefined) return userPath ?? 'global';
  const target = model === undefined ? provider : `${provider}/${model}`;
  return userPath === undefined ? target : `${target} @ ${userPath}`;
}

export function isAtOrBelow(path: string, above: string): boolean {
  return above === '/' || path === above || path.startsWith(`${above}/`);
}
