/** Wiring of workflows and guardrails: the policy of each request, and the changes of administrators. */

import { type GuardrailTestParts, testGuardrail } from '../commands/auxiliary-calls/test-guardrail.ts';
import { localAddressCheck } from '../commands/credentials/credential-fields.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import type { ExchangeDependencies } from '../commands/exchange/pipeline/dependencies.ts';
import { type ExchangePolicy, policyOfWorkflow, policyWithout } from '../commands/exchange/policy.ts';
import { GuardrailChanges } from '../commands/guardrails/changes.ts';
import { declaredGuardrails, GuardrailDirectory, type GuardrailRule } from '../commands/guardrails/directory.ts';
import {
  type Guardrail,
  type GuardrailTypes,
  isPrepared,
  type PreparationParts,
  prepareGuardrail,
  sealingPlace,
} from '../commands/guardrails/guardrail.ts';
import type { GuardrailServices } from '../commands/guardrails/guardrail-type.ts';
import type { DraftParts } from '../commands/guardrails/replay/draft.ts';
import { Guard } from '../commands/handle-command.ts';
import type { RouteStrategies } from '../commands/virtual-models/virtual-model.ts';
import { type CompiledWorkflow, stepProblem } from '../commands/workflows/chains.ts';
import { readVersion, WorkflowChanges } from '../commands/workflows/changes.ts';
import { WorkflowDirectory, workflowUses } from '../commands/workflows/directory.ts';
import { isAtOrBelow, type WorkflowFeatures } from '../commands/workflows/workflow.ts';
import type { ScopeTargets } from '../commands/workflows/workflow-input.ts';
import type { Config } from '../config/config.ts';
import { mintEventId } from '../events/event-id.ts';
import type { EventLog } from '../events/log.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import { registerGuardrailTest } from '../http/admin/guardrails/guardrail-test.ts';
import { registerGuardrails } from '../http/admin/guardrails/guardrails.ts';
import { type PluginRow, registerPlugins, whilePluginsAreOn } from '../http/admin/guardrails/plugins.ts';
import { registerWorkflows } from '../http/admin/guardrails/workflows.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { optionalUserPath } from '../http/request-head.ts';
import type { SavedObjects } from '../projections/administered.ts';
import type { RunningProjection } from '../projections/runner.ts';
import { guardrailsView, type WorkflowsState, workflowsView } from '../projections/workflows.ts';
import type { Registry } from '../providers/registry.ts';

export interface WorkflowsOptions {
  readonly config: Config;
  readonly log: EventLog;
  readonly workflows: RunningProjection<WorkflowsState>;
  readonly guardrails: RunningProjection<SavedObjects<Guardrail>>;
  readonly types: GuardrailTypes;
  /** Whether a plugin could not be loaded, so that types may be missing. */
  readonly pluginsFailed: boolean;
  /** The rows of plugins in `GET /admin/plugins`. */
  pluginRows(): PluginRow[];
  readonly routeStrategies: Pick<RouteStrategies, 'list'>;
  readonly sealers: SealerSource;
  /** @param isDeclared whether the configuration declares the guardrail */
  servicesOf(
    guardrail: Pick<Guardrail, 'name' | 'userPath' | 'timeoutMs' | 'failMode'>,
    isDeclared: boolean,
  ): GuardrailServices;
  readonly registry: Pick<Registry, 'providerByNameOrType' | 'resolve'>;
}

/** Workflows, and the guardrails with which they are compiled. */
export interface InForceWorkflows {
  readonly directory: WorkflowDirectory;
  readonly guardrails: GuardrailDirectory;
}

interface StoredWorkflows {
  readonly guardrails: { readonly state: SavedObjects<Guardrail> };
  readonly workflows: { readonly state: WorkflowsState };
}

export type Workflows = ReturnType<typeof createWorkflows>;

/** @throws Error when the configuration declares an invalid guardrail */
export function createWorkflows(options: WorkflowsOptions) {
  const { config, log, types, sealers, registry } = options;
  const guard = new Guard({
    log,
    rule: 'workflows',
    whenProcessed: (position) =>
      Promise.all([options.guardrails.whenProcessed(position), options.workflows.whenProcessed(position)]),
  });
  const switches = processSwitches(config);
  const declared = new Map<string, Guardrail>();
  const servicesOf: PreparationParts['servicesOf'] = (guardrail) =>
    options.servicesOf(guardrail, declared.get(guardrail.name) === guardrail);
  const openSecret: PreparationParts['openSecret'] = (name, field, sealed) =>
    sealers.toOpen().open(sealingPlace(name), field, sealed);
  const prepare: DraftParts['prepare'] = (guardrail, services = (of) => of) =>
    prepareGuardrail(guardrail, { types, openSecret, servicesOf: (one) => services(servicesOf(one)) });
  const prepareAsIs = (guardrail: Guardrail) => prepare(guardrail);
  const rulesIn = (given: Config) => {
    const found = declaredGuardrails(rulesOf(given), types, prepareAsIs, options.pluginsFailed);
    const { guardrails: stored } = options;
    const catalogue = new GuardrailDirectory({ stored, declared: found.guardrails, prepare: prepareAsIs });
    const known = found.steps.filter(({ ref }) => isPrepared(catalogue.prepared(ref)));
    const conflict = stepProblem(known, catalogue);
    if (conflict !== undefined) throw new Error(`guardrails.rules: ${conflict.problem}`);
    return found;
  };
  let rules = rulesIn(config);
  for (const [name, guardrail] of rules.guardrails) declared.set(name, guardrail);
  const over = (stored: StoredWorkflows): InForceWorkflows => {
    const guardrails = new GuardrailDirectory({ stored: stored.guardrails, declared, prepare: prepareAsIs });
    const directory = new WorkflowDirectory({ stored: stored.workflows, guardrails, switches });
    return { directory, guardrails };
  };
  const now = over(options);
  const { directory, guardrails } = now;
  async function at(given: string | undefined, asOf: AsOf): Promise<InForceWorkflows> {
    const moment = await asOf.moment(given);
    if (moment === undefined) return now;
    const [stored, workflows] = await Promise.all([
      asOf.fold(guardrailsView, moment),
      asOf.fold(workflowsView, moment),
    ]);
    return over({ guardrails: { state: stored }, workflows: { state: workflows } });
  }
  const guardrailChanges = new GuardrailChanges({
    directory: guardrails,
    types,
    uses: workflowUses(directory, guardrails),
    sealers,
    refusesAddress: config.registry.allowLocalProviders ? async () => false : localAddressCheck(),
    guard,
  });
  const changes = new WorkflowChanges({
    log,
    directory,
    guardrails,
    guard,
    newId: mintEventId,
  });
  const targets: ScopeTargets = {
    instanceOf: (nameOrType) => registry.providerByNameOrType(nameOrType)?.name,
    serves(provider, model) {
      const found = registry.resolve(model, provider);
      return found?.provider.name === provider && found.model === model;
    },
  };
  const { capture } = config.logging;
  const ofProcess = { capture, cache: config.responseCache.enabled ? config.responseCache : undefined };
  const none = policyWithout(ofProcess);
  const policy = policies((compiled) => policyOfWorkflow(compiled, ofProcess), none);
  const unguarded = policies((compiled) => ({ ...policy(compiled), guardrails: undefined, problem: undefined }), none);
  return {
    directory,
    changes,
    guardrails,
    guardrailChanges,
    /** Checks and compiles a definition that need not be in force. */
    prepare,
    /** What the configuration of the process allows. */
    switches,
    targets,
    policyOf: (({ caller: { userPath, origin } }, first) => {
      // A guardrail's own call names its model; that of a response whose tools the gateway runs passes its guardrails.
      if (origin !== undefined) return unguarded(directory.select(userPath, first?.provider.name, first?.model));
      const provider = first?.provider.name;
      // Without a known model, the request may call any model of the provider.
      const guarded = first?.model === '' ? guardedModelOf(first.provider.name, userPath, directory) : undefined;
      return policy(guarded ?? directory.select(userPath, provider, first?.model));
    }) satisfies ExchangeDependencies['policyOf'],
    async policyAgain(id: string) {
      const place = directory.placeOf(id);
      const found = place === undefined ? undefined : await readVersion(place, log);
      return found === undefined ? undefined : policy(directory.compile(found.workflow));
    },
    /** Creates the default workflow when there is no global one. @throws Refusal 503 when the log cannot be written */
    begin: () => changes.manageDefault(rules.steps),
    /**
     * @returns a function that replaces the declared guardrails and their steps by those of `next`. It rejects when the log
     * cannot be written; nothing has changed then
     * @throws Error that names an invalid one
     */
    prepareReload(next: Config): () => Promise<void> {
      const replacing = rulesIn(next);
      return async () => {
        // The steps of the default workflow change with an event: before and after it, each step has its guardrail.
        guardrails.inForce.redeclare(new Map([...rules.guardrails, ...replacing.guardrails]));
        try {
          await changes.manageDefault(replacing.steps);
          rules = replacing;
        } finally {
          guardrails.inForce.redeclare(rules.guardrails);
        }
      };
    },
    /** Those at the moment `given` of a query; those in force without one. @throws Refusal 400 */
    at,
    register(admin: Routes, asOf: AsOf) {
      registerWorkflows(admin, {
        ...{ log, directory, changes, targets },
        at: async (given) => (await at(given, asOf)).directory,
      });
      whilePluginsAreOn(admin, config.pluginsEnabled || config.guardrailsEnabled, (routes) => {
        registerPlugins(routes, { types, routeStrategies: options.routeStrategies, plugins: options.pluginRows });
        const test: GuardrailTestParts = {
          ...{ directory: guardrails, log, prepare, draft: (input) => guardrailChanges.draft(input) },
        };
        registerGuardrailTest(routes, (given) => testGuardrail(given, test));
        registerGuardrails(routes, {
          ...{ directory: guardrails, types, changes: guardrailChanges },
          at: async (given) => (await at(given, asOf)).guardrails,
        });
      });
    },
  };
}

export function rulesOf({ guardrails }: Pick<Config, 'guardrails'>): GuardrailRule[] {
  return guardrails.map(({ userPath, ...rule }) => ({ ...rule, userPath: optionalUserPath(userPath, 'user_path') }));
}

/** A workflow with guardrails for one model of the provider, at this path or above it. */
function guardedModelOf(
  provider: string,
  userPath: string | undefined,
  { active }: WorkflowDirectory,
): CompiledWorkflow | undefined {
  for (const compiled of active) {
    const { chains, problem, workflow } = compiled;
    const { scope } = workflow;
    if (chains === undefined && problem === undefined) continue;
    if (scope.model !== undefined && scope.provider === provider && isAtOrBelow(userPath ?? '/', scope.userPath ?? '/'))
      return compiled;
  }
  return undefined;
}

/** One policy for each compiled workflow. @param none the policy without a workflow */
function policies(
  policyOf: (compiled: CompiledWorkflow) => ExchangePolicy,
  none: ExchangePolicy,
): (compiled: CompiledWorkflow | undefined) => ExchangePolicy {
  const known = new WeakMap<CompiledWorkflow, ExchangePolicy>();
  return (compiled) => {
    if (compiled === undefined) return none;
    let policy = known.get(compiled);
    if (policy === undefined) {
      policy = policyOf(compiled);
      known.set(compiled, policy);
    }
    return policy;
  };
}

function processSwitches(config: WorkflowsOptions['config']): WorkflowFeatures {
  return {
    cache: config.responseCache.enabled,
    audit: config.logging.enabled,
    usage: config.usageEnabled,
    budget: config.budgets.enabled,
    guardrails: config.guardrailsEnabled,
    failover: config.failover.enabled,
  };
}
