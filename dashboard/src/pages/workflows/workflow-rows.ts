/** Workflows as the API returns them: their steps in order, and which one applies to a scope. Pure. */

export const phases = ['prompt', 'response', 'stream'] as const;
export type Phase = (typeof phases)[number];

export type Feature = 'cache' | 'audit' | 'usage' | 'budget' | 'guardrails' | 'failover';

/** The requests that match all given parts. */
export interface Scope {
  readonly scope_provider_name?: string;
  readonly scope_model?: string;
  readonly scope_user_path?: string;
}

export interface Step {
  /** The name of a guardrail. */
  readonly ref: string;
  /** Guardrails of one step run at the same time. */
  readonly step: number;
}

export interface Payload {
  readonly features: Readonly<Record<Feature, boolean>>;
  /** Of version 1: those of requests. */
  readonly guardrails?: readonly Step[];
  readonly steps?: readonly (Step & { readonly phase: Phase })[];
  readonly cache?: {
    readonly scope: 'user_path' | 'key' | 'shared';
    readonly ttl_seconds?: number;
    readonly tool_calls?: boolean;
  };
  /** Of requests to providers. */
  readonly headers?: {
    readonly pass?: string[];
    readonly set?: Record<string, string>;
    readonly remove?: string[];
  };
}

/** A row of `GET /admin/workflows/{id}/versions`. */
export interface WorkflowVersion {
  readonly id: string;
  readonly scope: Scope;
  readonly version: number;
  readonly active: boolean;
  readonly managed_default?: true;
  readonly name: string;
  readonly description?: string;
  readonly workflow_payload: Payload;
  readonly created_at: string;
  readonly revision?: string;
}

/** A row of `GET /admin/workflows`. */
export interface Workflow extends WorkflowVersion {
  readonly scope_type: string;
  readonly scope_display: string;
  readonly effective_features: Readonly<Record<Feature, boolean>>;
  readonly compile_error?: string;
}

export const phaseTitles: Readonly<Record<Phase, string>> = {
  prompt: 'Request (prompt)',
  response: 'Whole answer (response)',
  stream: 'Streamed answer (stream)',
};

export const features: readonly { readonly name: Feature; readonly title: string; readonly off: string }[] = [
  { name: 'audit', title: 'Audit', off: 'bodies are not recorded' },
  { name: 'usage', title: 'Usage', off: 'nothing is counted or charged' },
  { name: 'budget', title: 'Budgets', off: 'budgets neither refuse nor reserve' },
  { name: 'failover', title: 'Failover', off: 'only the first target is called' },
  { name: 'guardrails', title: 'Guardrails', off: 'the steps do not run' },
  { name: 'cache', title: 'Response cache', off: 'answers are neither read nor kept' },
];

/** Of one phase, in the order in which they run. */
export function stepsOf({ guardrails = [], steps = [] }: Payload, phase: Phase): readonly Step[] {
  const ofPhase = steps.filter((one) => one.phase === phase);
  const all = phase === 'prompt' ? [...guardrails, ...ofPhase] : ofPhase;
  return all
    .map(({ ref, step }) => ({ ref, step }))
    .toSorted((one, other) => one.step - other.step || (one.ref < other.ref ? -1 : 1));
}

/** The guardrails of each step. */
export function groupsOf(steps: readonly Step[]): readonly (readonly string[])[] {
  const groups = new Map<number, string[]>();
  for (const { ref, step } of steps) groups.set(step, [...(groups.get(step) ?? []), ref]);
  return [...groups.values()];
}

export function usesGuardrail(
  { workflow_payload: payload }: Pick<Workflow, 'workflow_payload'>,
  name: string,
): boolean {
  return phases.some((phase) => stepsOf(payload, phase).some(({ ref }) => ref === name));
}

/** `all requests`, `/team`, `openai/gpt-5-mini at /team`. */
export function scopeTitle({
  scope_provider_name: provider,
  scope_model: model,
  scope_user_path: path,
}: Scope): string {
  if (provider === undefined) return path ?? 'all requests';
  const target = model === undefined ? provider : `${provider}/${model}`;
  return path === undefined ? target : `${target} at ${path}`;
}

export function isSameScope(one: Scope, other: Scope): boolean {
  return scopeTitle(one) === scopeTitle(other);
}

/**
 * The workflow of the requests of this one's scope once it is deactivated, as far as no deeper one matches: the deepest
 * user path first; at each path provider and model, then provider, then the path alone.
 */
export function appliesWithout(workflow: Workflow, active: readonly Workflow[]): Workflow | undefined {
  return active
    .filter(({ id, scope }) => id !== workflow.id && includes(scope, workflow.scope))
    .toSorted((one, other) => precedence(other.scope) - precedence(one.scope))[0];
}

function includes(outer: Scope, inner: Scope): boolean {
  const { scope_provider_name: provider, scope_model: model, scope_user_path: path } = outer;
  if (provider !== undefined && provider !== inner.scope_provider_name) return false;
  if (model !== undefined && model !== inner.scope_model) return false;
  return path === undefined || isAtOrBelow(inner.scope_user_path, path);
}

function isAtOrBelow(path: string | undefined, above: string): boolean {
  if (path === undefined) return false;
  return above === '/' || path === above || path.startsWith(`${above}/`);
}

function precedence({ scope_provider_name: provider, scope_model: model, scope_user_path: path }: Scope): number {
  const depth = path === undefined ? 0 : path === '/' ? 1 : path.split('/').length;
  return depth * 3 + (model !== undefined ? 2 : provider !== undefined ? 1 : 0);
}
