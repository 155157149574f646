/** Virtual models and access policies as rows of the admin API. */
import { z } from 'zod';
import { parseSelector } from '../../commands/access/selector.ts';
import type { Target } from '../../commands/model-request/routing-types.ts';
import {
  type DeclaredVirtualModels,
  type StoredVirtualModels,
  VirtualModelDirectory,
} from '../../commands/virtual-models/directory.ts';
import { expand } from '../../commands/virtual-models/expand.ts';
import {
  isRedirect,
  type StrategyPlugin,
  strategies,
  type VirtualModel,
} from '../../commands/virtual-models/virtual-model.ts';
import { timeText } from '../dates.ts';

/** Inputs of the rows beside the stored virtual models. */
export interface RowFacts {
  readonly declared: DeclaredVirtualModels;
  readonly enabledByDefault: boolean;
  /** The provider that serves a model now. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  isProvider(name: string): boolean;
  /** Why a route strategy cannot be used now. */
  strategyProblem(plugin: StrategyPlugin): string | undefined;
}

const target = z.object({ provider: z.string().optional(), model: z.string(), weight: z.number().optional() });
const failover = z.object({
  enabled: z.boolean(),
  statuses: z.array(z.int()).optional(),
  phrases: z.array(z.string()).optional(),
});

export const virtualModelRow = z.object({
  source: z.string(),
  kind: z.enum(['redirect', 'policy']),
  targets: z.array(target).optional(),
  strategy: z.enum(strategies).optional(),
  strategy_plugin: z.string().optional(),
  strategy_config: z.record(z.string(), z.unknown()).optional(),
  strategy_problem: z
    .string()
    .optional()
    .describe('Why weighted round robin replaces the route strategy now. Absent: it does not'),
  session_affinity: z.boolean().optional(),
  failover: z.union([z.boolean(), failover]).optional(),
  resolved_model: z.string().optional().describe('The first model of a provider to which it leads now'),
  provider_type: z.string().optional(),
  scope_kind: z.enum(['global', 'provider', 'model', 'provider_model']).optional(),
  provider_name: z.string().optional(),
  model: z.string().optional(),
  valid: z
    .boolean()
    .describe('A redirect leads to a model that a provider serves now; the provider of a policy exists'),
  user_paths: z.array(z.string()),
  description: z.string().optional(),
  enabled: z.boolean(),
  managed: z.boolean().describe('Declared in the configuration, and read-only here'),
  created_at: z.iso.datetime().optional(),
  updated_at: z.iso.datetime().optional(),
  revision: z.string().optional(),
});

type VirtualModelRow = ReturnType<typeof rowOf>;

/** Sorted by name. @param stored current, or of an `as_of`; the available models are always the current ones */
export function virtualModelRows(stored: StoredVirtualModels, facts: RowFacts): VirtualModelRow[] {
  const directory = new VirtualModelDirectory({ ...facts, stored: () => stored });
  const models = [...directory.all.values()].sort((a, b) => (a.source < b.source ? -1 : 1));
  return models.map((model) => rowOf(model, directory, facts));
}

function rowOf(model: VirtualModel, directory: VirtualModelDirectory, facts: RowFacts) {
  const { source, userPaths, description, enabled } = model;
  const stored = directory.storedAs(source);
  return {
    source,
    ...(isRedirect(model) ? redirectMembers(model, directory, facts) : policyMembers(source, facts)),
    user_paths: userPaths,
    ...(description === undefined ? {} : { description }),
    enabled,
    managed: directory.isManaged(source),
    ...(stored === undefined
      ? {}
      : {
          created_at: timeText(stored.createdAt),
          updated_at: timeText(stored.updatedAt),
          revision: String(stored.revision),
        }),
  };
}

function redirectMembers(
  model: VirtualModel,
  { redirects }: VirtualModelDirectory,
  { resolve, strategyProblem }: RowFacts,
) {
  const { enabled, ...rules } = model.failover;
  const [first] = expand(model, { redirect: (name) => redirects.get(name), resolve }).candidates;
  return {
    kind: 'redirect',
    targets: model.targets,
    strategy: model.strategy,
    ...(model.plugin === undefined ? {} : pluginMembers(model.plugin, strategyProblem(model.plugin))),
    session_affinity: model.sessionAffinity,
    failover: rules.statuses === undefined && rules.phrases === undefined ? enabled : { enabled, ...rules },
    ...(first === undefined
      ? {}
      : {
          resolved_model: `${first.target.provider.name}/${first.target.model}`,
          provider_type: first.target.provider.type,
        }),
    valid: first !== undefined,
  };
}

function pluginMembers({ name, config }: StrategyPlugin, problem: string | undefined) {
  const members = { strategy_plugin: name, strategy_config: config };
  return problem === undefined ? members : { ...members, strategy_problem: problem };
}

const scopeKinds = { everything: 'global', provider: 'provider', model: 'model', exact: 'provider_model' } as const;

function policyMembers(source: string, { isProvider }: RowFacts) {
  const selector = parseSelector(source);
  return {
    kind: 'policy',
    scope_kind: scopeKinds[selector.kind],
    ...('provider' in selector ? { provider_name: selector.provider } : {}),
    ...('model' in selector ? { model: selector.model } : {}),
    valid: !('provider' in selector) || isProvider(selector.provider),
  };
}
