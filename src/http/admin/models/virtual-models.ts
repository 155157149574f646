/** `/admin/virtual-models`: aliases of other models, and access policies of models. */
import { z } from 'zod';
import { parseSelector, type Selector } from '../../../commands/access/selector.ts';
import type { Target } from '../../../commands/model-request/routing-types.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import type { VirtualModelChanges } from '../../../commands/virtual-models/decider.ts';
import { VirtualModelDirectory } from '../../../commands/virtual-models/directory.ts';
import { expand } from '../../../commands/virtual-models/expand.ts';
import {
  isRedirect,
  type KnownStrategies,
  type StrategyPlugin,
  strategies,
  type VirtualModel,
} from '../../../commands/virtual-models/virtual-model.ts';
import { type KnownProviders, virtualModelFrom } from '../../../commands/virtual-models/virtual-model-input.ts';
import type { SavedObjects } from '../../../projections/administered.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { virtualModelsView } from '../../../projections/workflows.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { parseUserPath } from '../../request-head.ts';
import type { AsOf } from '../as-of.ts';
import { sendETag } from '../conditional.ts';
import { asOfQuery, oneAsOf } from '../parameters.ts';
import { changeIn, savedMembers, sendObject } from '../resource.ts';

// Virtual models and access policies as rows of the admin API.

/** Inputs of the rows beside the stored virtual models. */
export interface RowFacts {
  readonly declared: Map<string, VirtualModel>;
  readonly enabledByDefault: boolean;
  /** The provider that serves a model now. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  isProvider(name: string): boolean;
  /** Why a route strategy cannot be used now. */
  strategyProblem(plugin: StrategyPlugin): string | undefined;
}

const shownTarget = z.object({ provider: z.string().optional(), model: z.string(), weight: z.number().optional() });
const failover = z.object({
  enabled: z.boolean(),
  statuses: z.array(z.int()).optional(),
  phrases: z.array(z.string()).optional(),
});

const virtualModelRow = z.object({
  source: z.string(),
  kind: z.enum(['redirect', 'policy']),
  targets: z.array(shownTarget).optional(),
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

/** @param stored current, or of an `as_of`; the available models are always the current ones */
function directoryOf(stored: SavedObjects<VirtualModel>, facts: RowFacts): VirtualModelDirectory {
  return new VirtualModelDirectory({ ...facts, stored: { state: stored } });
}

/** Undefined when there is no such virtual model. */
function rowOf(source: string, directory: VirtualModelDirectory, facts: RowFacts) {
  const model = directory.inForce.get(source);
  return (
    model && {
      source,
      ...(isRedirect(model) ? redirectMembers(model, directory, facts) : policyMembers(source, facts)),
      user_paths: model.userPaths,
      description: model.description,
      enabled: model.enabled,
      managed: directory.inForce.isDeclared(source),
      ...savedMembers(directory.inForce.savedAs(source)),
    }
  );
}

function redirectMembers(
  model: VirtualModel,
  { redirects }: VirtualModelDirectory,
  { resolve, strategyProblem }: RowFacts,
) {
  const { targets, strategy, plugin, sessionAffinity } = model;
  const { enabled, ...rules } = model.failover;
  const first = expand(model, { redirect: (name) => redirects.get(name), resolve }).candidates[0]?.target;
  return {
    kind: 'redirect',
    targets,
    strategy,
    strategy_plugin: plugin?.name,
    strategy_config: plugin?.config,
    strategy_problem: plugin && strategyProblem(plugin),
    session_affinity: sessionAffinity,
    failover: rules.statuses === undefined && rules.phrases === undefined ? enabled : { enabled, ...rules },
    resolved_model: first && `${first.provider.name}/${first.model}`,
    provider_type: first?.provider.type,
    valid: first !== undefined,
  };
}

const scopeKinds = { everything: 'global', provider: 'provider', model: 'model', exact: 'provider_model' } as const;

/** Which models a selector names. */
export function selectorMembers(selector: Selector) {
  return {
    scope_kind: scopeKinds[selector.kind],
    provider_name: 'provider' in selector ? selector.provider : undefined,
    model: 'model' in selector ? selector.model : undefined,
  };
}

function policyMembers(source: string, { isProvider }: RowFacts) {
  const selector = parseSelector(source);
  const valid = !('provider' in selector) || isProvider(selector.provider);
  return { kind: 'policy', ...selectorMembers(selector), valid };
}

interface VirtualModelRoutesOptions {
  readonly view: Pick<RunningProjection<SavedObjects<VirtualModel>>, 'state'>;
  readonly changes: VirtualModelChanges;
  readonly providers: KnownProviders;
  readonly routeStrategies: KnownStrategies;
  readonly facts: RowFacts;
  readonly asOf: AsOf;
}

const target = z.strictObject({
  provider: z.string().nullish().describe('Name or type of a provider, which pins the model to it'),
  model: z.string().describe('A model, or another virtual model'),
  weight: z.number({ error: 'it must be a finite number' }).nullish(),
});

const virtualModelBody = z.strictObject({
  source: z.string().describe('The name that clients use; without targets, a selector of models'),
  old_source: z.string().nullish().describe('The current name, when it changes'),
  target_model: z.string().nullish(),
  targets: z.array(target).nullish(),
  strategy: z
    .string()
    .nullish()
    .describe(`${strategies.join(', ')}; also \`plugin:<name>\`, or the name of a route strategy`),
  strategy_plugin: z.string().nullish().describe('The route strategy, when `strategy` is `plugin`'),
  strategy_config: z
    .record(z.string(), z.unknown(), { error: 'it must be an object' })
    .nullish()
    .describe('Settings of the route strategy'),
  session_affinity: z.boolean().nullish(),
  failover: z
    .union(
      [
        z.boolean(),
        z.strictObject({
          enabled: z.boolean().optional(),
          statuses: z.array(z.number()).optional(),
          phrases: z.array(z.string()).optional(),
        }),
      ],
      { error: 'it must be true or false, or an object with enabled, statuses and phrases' },
    )
    .nullish(),
  slowdown: z.number().nullish().describe('Not supported'),
  user_paths: z.array(z.string()).nullish(),
  description: z.string().max(2000).nullish(),
  enabled: z.boolean().nullish(),
});

const change = { ifMatch: '/virtual-models/:source' } as const;

const listVirtualModels = globalAdmin('listVirtualModels', 'List virtual models and access policies', {
  querystring: asOfQuery,
  response: { 200: jsonAnswer('All of them, by name', z.array(virtualModelRow)) },
});

const getVirtualModel = globalAdmin('getVirtualModel', 'Get one virtual model or access policy', {
  ...oneAsOf,
  params: pathParameters({ source: 'Its name, with slashes as `%2F`' }),
  response: { 200: jsonAnswer('The virtual model or access policy', virtualModelRow) },
});

const saveVirtualModel = globalAdmin(
  'saveVirtualModel',
  'Create, replace or rename a virtual model or an access policy',
  {
    ...change,
    description: 'Replaces the whole definition: omitted members get their defaults.',
    body: virtualModelBody,
    example: { source: 'fast', targets: [{ provider: 'openai', model: 'gpt-4o' }], strategy: 'failover' },
    response: {
      200: jsonAnswer('The saved virtual model or access policy', virtualModelRow),
      204: emptyAnswer('An access policy without effect is not stored'),
    },
    errors: [404],
  },
);

const removeVirtualModel = globalAdmin('removeVirtualModel', 'Delete a virtual model or an access policy', {
  ...change,
  body: z.strictObject({ source: z.string() }),
  example: { source: 'fast' },
  response: { 204: emptyAnswer('The virtual model or access policy is deleted') },
  errors: [404],
});

export function registerVirtualModels(admin: Routes, options: VirtualModelRoutesOptions): void {
  const { view, changes, providers, routeStrategies, facts, asOf } = options;

  const directoryAt = async (given: string | undefined) =>
    directoryOf(await asOf.state(given, virtualModelsView, view), facts);

  admin.get('/virtual-models', listVirtualModels, async (request) => {
    const directory = await directoryAt(request.query.as_of);
    return directory.inForce.keys.map((source) => rowOf(source, directory, facts));
  });

  admin.get('/virtual-models/:source', getVirtualModel, async (request, reply) => {
    const source = nameOf(request.params.source);
    const directory = await directoryAt(request.query.as_of);
    return sendObject(reply, rowOf(source, directory, facts), 'virtual model', source);
  });

  admin.put('/virtual-models', saveVirtualModel, async (request, reply) => {
    const model = virtualModelOf(request.body, providers, routeStrategies);
    const old = nameOf(request.body.old_source ?? '') || undefined;
    const renames = old === model.source ? undefined : old;
    const { state: saved, revision } = await changes.save(model, renames, changeIn(request));
    if (saved === undefined) return reply.status(204).send();
    sendETag(reply, revision);
    return rowOf(saved.source, directoryOf(view.state, facts), facts);
  });

  admin.delete('/virtual-models', removeVirtualModel, async (request, reply) => {
    await changes.remove(nameOf(request.body.source), changeIn(request));
    return reply.status(204).send();
  });
}

/** The stored form of an existing virtual model's name. */
function nameOf(text: string): string {
  const name = text.trim();
  return name === '*' ? '/' : name.endsWith('/*') ? name.slice(0, -1) : name;
}

/** @throws Refusal 400 */
function virtualModelOf(
  input: z.infer<typeof virtualModelBody>,
  providers: KnownProviders,
  routeStrategies: KnownStrategies,
): VirtualModel {
  if ((input.slowdown ?? 0) !== 0) {
    throw refusals.invalidRequest("'slowdown' cannot be honoured: the gateway does not delay answers.", 'slowdown');
  }
  const model = virtualModelFrom(
    {
      source: input.source,
      targetModel: input.target_model ?? undefined,
      targets: input.targets?.map(({ provider, model, weight }) => ({
        provider: provider ?? undefined,
        model,
        weight: weight ?? undefined,
      })),
      strategy: input.strategy || undefined,
      strategyPlugin: input.strategy_plugin || undefined,
      strategyConfig: input.strategy_config ?? undefined,
      sessionAffinity: input.session_affinity ?? undefined,
      failover: input.failover ?? undefined,
      userPaths: input.user_paths?.map((path, place) => parseUserPath(path, `user_paths.${place}`)),
      enabled: input.enabled ?? undefined,
      description: input.description ?? undefined,
    },
    providers,
    routeStrategies,
  );
  if (model instanceof Refusal) throw model;
  return model;
}
