/** `/admin/virtual-models`: aliases of other models, and access policies of models. */

import { z } from 'zod';
import { parseSelector } from '../../commands/access/selector.ts';
import type { Target } from '../../commands/model-request/target.ts';
import { Refusal, refusals } from '../../commands/refusal.ts';
import type { VirtualModelChanges } from '../../commands/virtual-models/changes.ts';
import {
  type DeclaredVirtualModels,
  type StoredVirtualModels,
  VirtualModelDirectory,
} from '../../commands/virtual-models/directory.ts';
import { expand } from '../../commands/virtual-models/expand.ts';
import { isRedirect, type VirtualModel } from '../../commands/virtual-models/virtual-model.ts';
import { type KnownProviders, virtualModelFrom } from '../../commands/virtual-models/virtual-model-input.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { type VirtualModelsState, virtualModelsView } from '../../projections/virtual-models.ts';
import type { Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { parseUserPath } from '../user-path.ts';
import type { AsOf } from './as-of.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { requestedAsOf } from './page.ts';
import { readBody } from './read-body.ts';

export interface VirtualModelRoutesOptions {
  readonly view: Pick<RunningProjection<VirtualModelsState>, 'state'>;
  readonly changes: VirtualModelChanges;
  readonly providers: KnownProviders;
  readonly facts: RowFacts;
  readonly asOf: AsOf;
}

/** Inputs of the rows beside the stored virtual models. */
export interface RowFacts {
  readonly declared: DeclaredVirtualModels;
  readonly enabledByDefault: boolean;
  /** The provider that serves a model now. */
  resolve(model: string, provider: string | undefined): Target | undefined;
  isProvider(name: string): boolean;
}

const target = z.strictObject({
  provider: z.string().nullish(),
  model: z.string(),
  weight: z.number({ error: 'it must be a finite number' }).nullish(),
});

const virtualModelBody = z.strictObject({
  source: z.string(),
  old_source: z.string().nullish(),
  target_model: z.string().nullish(),
  targets: z.array(target).nullish(),
  strategy: z.string().nullish(),
  strategy_plugin: z.string().nullish(),
  strategy_config: z.unknown().optional(),
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
  slowdown: z.number().nullish(),
  user_paths: z.array(z.string()).nullish(),
  description: z.string().max(2000).nullish(),
  enabled: z.boolean().nullish(),
});

const named = z.strictObject({ source: z.string() });

const global = { config: { access: 'global-admin' } } as const;
const shown = { config: { access: 'global-admin', etag: true } } as const;
const change = { config: { access: 'global-admin', ifMatch: '/virtual-models/:source' } } as const;

export function registerVirtualModels(admin: Routes, options: VirtualModelRoutesOptions): void {
  const { view, changes, providers, facts, asOf } = options;

  admin.get('/virtual-models', global, async (request) => {
    const moment = await asOf.moment(requestedAsOf(request));
    return virtualModelRows(moment === undefined ? view.state : await asOf.fold(virtualModelsView, moment), facts);
  });

  admin.get<{ Params: { source: string } }>('/virtual-models/:source', shown, async (request, reply) => {
    const name = nameOf(request.params.source);
    const moment = await asOf.moment(requestedAsOf(request));
    const stored = moment === undefined ? view.state : await asOf.fold(virtualModelsView, moment);
    const row = virtualModelRows(stored, facts).find(({ source }) => source === name);
    if (row === undefined) throw refusals.notFound('virtual model', name);
    if (row.revision !== undefined) sendETag(reply, row.revision);
    return row;
  });

  admin.put('/virtual-models', change, async (request, reply) => {
    const input = readBody(request, virtualModelBody);
    const model = virtualModelOf(input, providers);
    const old = nameOf(input.old_source ?? '') || undefined;
    const renames = old === model.source ? undefined : old;
    const by = { context: eventContextOf(request), ifRevision: ifMatch(request) };
    const { model: saved, revision } = await changes.save(model, renames, by);
    if (saved === undefined) return reply.status(204).send();
    sendETag(reply, revision);
    return virtualModelRows(view.state, facts).find(({ source }) => source === saved.source);
  });

  admin.delete('/virtual-models', change, async (request, reply) => {
    const { source } = readBody(request, named);
    await changes.remove(nameOf(source), { context: eventContextOf(request), ifRevision: ifMatch(request) });
    return reply.status(204).send();
  });
}

/** The stored form of an existing virtual model's name. */
function nameOf(text: string): string {
  const name = text.trim();
  return name === '*' ? '/' : name.endsWith('/*') ? name.slice(0, -1) : name;
}

/** @throws Refusal 400 */
function virtualModelOf(input: z.infer<typeof virtualModelBody>, providers: KnownProviders): VirtualModel {
  if ((input.strategy_plugin ?? '') !== '' || (input.strategy_config ?? null) !== null) {
    const param = (input.strategy_plugin ?? '') === '' ? 'strategy_config' : 'strategy_plugin';
    throw refusals.invalidRequest(`'${param}' is of a plugin that chooses targets, and there are none.`, param);
  }
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
      sessionAffinity: input.session_affinity ?? undefined,
      failover: input.failover ?? undefined,
      userPaths: input.user_paths?.map((path, place) => parseUserPath(path, `user_paths.${place}`)),
      enabled: input.enabled ?? undefined,
      description: input.description ?? undefined,
    },
    providers,
  );
  if (model instanceof Refusal) throw model;
  return model;
}

type VirtualModelRow = ReturnType<typeof rowOf>;

/** Sorted by name. @param stored current, or of an `as_of`; the available models are always the current ones */
function virtualModelRows(stored: StoredVirtualModels, facts: RowFacts): VirtualModelRow[] {
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
          created_at: new Date(stored.createdAt).toISOString(),
          updated_at: new Date(stored.updatedAt).toISOString(),
          revision: String(stored.revision),
        }),
  };
}

function redirectMembers(model: VirtualModel, { redirects }: VirtualModelDirectory, { resolve }: RowFacts) {
  const { enabled, ...rules } = model.failover;
  const [first] = expand(model, { redirect: (name) => redirects.get(name), resolve }).candidates;
  return {
    kind: 'redirect',
    targets: model.targets,
    strategy: model.strategy,
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
