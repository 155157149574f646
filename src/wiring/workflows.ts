/** Wiring of workflows and guardrails: the policy of each request, and the changes of administrators. */
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import type { ExchangeDependencies } from '../commands/exchange/pipeline/dependencies.ts';
import { type ExchangePolicy, policyOfWorkflow, policyWithout } from '../commands/exchange/policy.ts';
import { GuardrailChanges } from '../commands/guardrails/changes.ts';
import { type DeclaredGuardrails, GuardrailDirectory } from '../commands/guardrails/directory.ts';
import type { Guardrail, GuardrailTypes } from '../commands/guardrails/guardrail.ts';
import { sealingPlace } from '../commands/guardrails/guardrail-input.ts';
import type { GuardrailServices } from '../commands/guardrails/guardrail-type.ts';
import { prepareGuardrail } from '../commands/guardrails/prepared-guardrail.ts';
import { InTurn } from '../commands/in-turn.ts';
import { readVersion, WorkflowChanges } from '../commands/workflows/changes.ts';
import type { CompiledWorkflow } from '../commands/workflows/compile.ts';
import { WorkflowDirectory } from '../commands/workflows/directory.ts';
import { workflowUses } from '../commands/workflows/guardrail-uses.ts';
import type { WorkflowFeatures, WorkflowStep } from '../commands/workflows/workflow.ts';
import type { ScopeTargets } from '../commands/workflows/workflow-input.ts';
import type { Config } from '../config/config.ts';
import { mintEventId } from '../events/event-id.ts';
import type { EventLog } from '../events/log.ts';
import type { GuardrailsState } from '../projections/guardrails.ts';
import type { RunningProjection } from '../projections/runner.ts';
import type { WorkflowsState } from '../projections/workflows.ts';
import type { Registry } from '../providers/registry.ts';

export interface WorkflowsOptions {
  readonly config: Pick<Config, 'logging' | 'usageEnabled' | 'budgets' | 'guardrailsEnabled' | 'failover'>;
  readonly log: EventLog;
  readonly workflows: RunningProjection<WorkflowsState>;
  readonly guardrails: RunningProjection<GuardrailsState>;
  readonly types: GuardrailTypes;
  readonly declared: DeclaredGuardrails;
  /** The steps of the default workflow. */
  readonly defaultSteps: readonly WorkflowStep[];
  readonly sealers: SealerSource;
  servicesOf(guardrail: Pick<Guardrail, 'name' | 'userPath'>): GuardrailServices;
  readonly registry: Pick<Registry, 'providerByNameOrType' | 'resolve'>;
}

export interface Workflows extends Pick<ExchangeDependencies, 'policyOf' | 'policyAgain'> {
  readonly directory: WorkflowDirectory;
  readonly changes: WorkflowChanges;
  readonly guardrails: GuardrailDirectory;
  readonly guardrailChanges: GuardrailChanges;
  readonly targets: ScopeTargets;
  /** What the configuration of the process allows. */
  readonly switches: WorkflowFeatures;
  /** Creates the default workflow when there is no global one. @throws Refusal 503 when the log cannot be written */
  begin(): Promise<void>;
}

export function createWorkflows(options: WorkflowsOptions): Workflows {
  const { config, log, types, sealers, servicesOf, registry } = options;
  const inTurn = new InTurn();
  const switches = processSwitches(config);
  const guardrails = new GuardrailDirectory({
    stored: () => options.guardrails.state,
    declared: options.declared,
    prepare: (guardrail) =>
      prepareGuardrail(guardrail, {
        types,
        openSecret: (name, field, sealed) => sealers.toOpen().open(sealingPlace(name), field, sealed),
        servicesOf,
      }),
  });
  const directory = new WorkflowDirectory({ stored: () => options.workflows.state, guardrails, switches });
  const guardrailChanges = new GuardrailChanges({
    log,
    directory: guardrails,
    types,
    uses: workflowUses(directory, guardrails),
    sealers,
    inTurn,
    whenProcessed: (position) => options.guardrails.whenProcessed(position),
  });
  const changes = new WorkflowChanges({
    log,
    directory,
    guardrails,
    inTurn,
    newId: mintEventId,
    whenProcessed: (position) => options.workflows.whenProcessed(position),
  });
  const policy = policies(config.logging.capture);
  return {
    directory,
    changes,
    guardrails,
    guardrailChanges,
    switches,
    targets: {
      instanceOf: (nameOrType) => registry.providerByNameOrType(nameOrType)?.name,
      serves(provider, model) {
        const found = registry.resolve(model, provider);
        return found?.provider.name === provider && found.model === model;
      },
    },
    policyOf: ({ caller }, first) => policy(directory.select(caller.userPath, first?.provider.name, first?.model)),
    async policyAgain(id) {
      const place = directory.placeOf(id);
      const found = place === undefined ? undefined : await readVersion(place, log);
      return found === undefined ? undefined : policy(directory.compile(found.workflow));
    },
    begin: () => changes.manageDefault(options.defaultSteps),
  };
}

/** One policy for each compiled workflow. */
function policies(capture: ExchangePolicy['capture']): (compiled: CompiledWorkflow | undefined) => ExchangePolicy {
  const none = policyWithout(capture);
  const known = new WeakMap<CompiledWorkflow, ExchangePolicy>();
  return (compiled) => {
    if (compiled === undefined) return none;
    let policy = known.get(compiled);
    if (policy === undefined) {
      policy = policyOfWorkflow(compiled, capture);
      known.set(compiled, policy);
    }
    return policy;
  };
}

/** There is no response cache yet. */
function processSwitches(config: WorkflowsOptions['config']): WorkflowFeatures {
  return {
    cache: false,
    audit: config.logging.enabled,
    usage: config.usageEnabled,
    budget: config.budgets.enabled,
    guardrails: config.guardrailsEnabled,
    failover: config.failover.enabled,
  };
}
