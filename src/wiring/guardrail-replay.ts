/** Wiring of runs of draft workflows over recorded requests. */
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import type { ReplayDependencies } from '../commands/exchange/record/replay-answer.ts';
import type { GuardrailTypes } from '../commands/guardrails/guardrail.ts';
import { followCancelledRuns, GuardrailReplays } from '../commands/guardrails/replay/replays.ts';
import type { ModelPrices } from '../commands/pricing/pricing.ts';
import type { Config } from '../config/config.ts';
import { mintEventId } from '../events/event-id.ts';
import { whilePluginsAreOn } from '../http/admin/guardrails/plugins.ts';
import { registerGuardrailReplay } from '../http/admin/guardrails/replay.ts';
import type { Routes } from '../http/api/route-schema.ts';
import type { ReplayRecords } from '../projections/guardrail-replays.ts';
import type { RunningProjection } from '../projections/runner.ts';
import type { Registry } from '../providers/registry.ts';
import type { GatewayLease } from './log/gateways.ts';
import type { Workflows } from './workflows.ts';

export interface GuardrailReplayParts {
  readonly config: Pick<Config, 'pluginsEnabled' | 'guardrailsEnabled'>;
  readonly recorded: ReplayDependencies;
  readonly workflows: Workflows;
  readonly types: GuardrailTypes;
  readonly sealers: SealerSource;
  readonly registry: Pick<Registry, 'resolve'>;
  readonly prices: Pick<ModelPrices, 'rates'>;
  readonly records: RunningProjection<ReplayRecords>;
  readonly lease: Pick<GatewayLease, 'gateway' | 'known'>;
  /** Whether other gateways can use the log. */
  readonly isShared: boolean;
  failed(error: unknown): void;
}

export interface GuardrailReplayWiring {
  register(admin: Routes): void;
  /** Ends the run that goes on, and records that. */
  stop(): Promise<void>;
}

export function createGuardrailReplay(parts: GuardrailReplayParts): GuardrailReplayWiring {
  const { config, recorded, workflows, types, sealers, registry, prices, records, lease, isShared } = parts;
  const { directory, guardrails, targets, prepare } = workflows;
  const replays = new GuardrailReplays({
    log: recorded.log,
    newId: mintEventId,
    gateway: lease.gateway,
    isServing: (gateway) => lease.known.granted.has(gateway),
    recorded: () => records.state.values(),
    whenProcessed: (position) => records.whenProcessed(position),
    failed: parts.failed,
    runDependencies: () => ({
      log: recorded.log,
      dialects: recorded.dialects,
      archive: recorded.archive,
      scopes: [...directory.active].map(({ workflow }) => workflow.scope),
      ratesOf({ model, provider }) {
        const found = registry.resolve(model, provider);
        return found === undefined ? undefined : prices.rates(found.provider.name, found.model);
      },
    }),
  });
  const following = new AbortController();
  const cancel = (id: string) => replays.cancelHere(id);
  const followed = isShared ? followCancelledRuns(recorded.log, cancel, following.signal) : undefined;
  followed?.catch((error: unknown) => {
    if (!following.signal.aborted) parts.failed(error);
  });
  const draft = {
    targets,
    types,
    sealers,
    prepare,
    inForce: guardrails,
    guardrail: (name: string) => guardrails.inForce.get(name),
  };
  return {
    register(admin) {
      whilePluginsAreOn(admin, config.pluginsEnabled || config.guardrailsEnabled, (routes) => {
        registerGuardrailReplay(routes, { replays, draft, recorded: records, now: Date.now });
      });
    },
    async stop() {
      following.abort();
      await replays.stop();
    },
  };
}
