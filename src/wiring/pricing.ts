/** Wiring of prices: prices of models, their administration, and recalculated costs of the past. */

import { type HeldJob, type JobName, Jobs } from '../commands/gateways/jobs.ts';
import { configuredPrices } from '../commands/pricing/model-pricing.ts';
import { PriceBook } from '../commands/pricing/price-book.ts';
import { priceSnapshot } from '../commands/pricing/price-snapshot.ts';
import { createRecalculator, type KnownModels, selectedModels } from '../commands/pricing/recalculate.ts';
import { expand } from '../commands/virtual-models/expand.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import { registerPricingOverrides, registerRecalculation } from '../http/admin/models/pricing.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { type JobsState, jobsView } from '../projections/leases.ts';
import { priceOverridesView } from '../projections/provider-memory.ts';
import type { ProjectionRunner } from '../projections/runner.ts';
import type { Registry } from '../providers/registry.ts';
import type { GatewayLease } from './log/gateways.ts';
import type { VirtualModels } from './virtual-models.ts';

/** Clients are not expected to wait longer. */
const RECALCULATION_LIMIT_MS = 10 * 60 * 1000;

export interface PricingWiring {
  readonly config: Config;
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  /** The type of a provider by its name. */
  typeOf(provider: string): string | undefined;
}

export interface PricingRoutes {
  readonly asOf: AsOf;
  readonly registry: Pick<Registry, 'providers' | 'knows' | 'find'>;
  readonly jobs: Pick<GatewayJobs, 'once'>;
  readonly virtualModels: Pick<VirtualModels, 'directory' | 'facts'>;
}

export type GatewayPricing = ReturnType<typeof gatewayPricing>;

/** @throws Error when the configuration declares an invalid price */
export function gatewayPricing({ config, log, projections, typeOf }: PricingWiring) {
  let configured = configuredPrices(config.providers);
  const overrides = projections.run(priceOverridesView);
  const prices = new PriceBook({
    overrides,
    configured: (provider, model) => configured.get(provider)?.get(model),
    snapshot: priceSnapshot,
    typeOf,
  });
  let recalculate: ReturnType<typeof createRecalculator> | undefined;
  return {
    prices,
    /** @returns a function that puts the prices of `next` in force. @throws Error when one is invalid */
    prepareReload({ providers }: Pick<Config, 'providers'>): () => void {
      const replacing = configuredPrices(providers);
      return () => {
        configured = replacing;
      };
    },
    /** Resolves when all price events in the log have been read. */
    caughtUp: overrides.caughtUp,
    /** Called once for each prefix of the admin API. */
    register(admin: Routes, { asOf, registry, virtualModels, jobs }: PricingRoutes) {
      recalculate ??= createRecalculator(prices, (work, otherwise) =>
        jobs.once('price-recalculation', (held) => work(held.log), otherwise),
      );
      const isProvider = (name: string) => registry.providers.some((provider) => provider.name === name);
      registerPricingOverrides(admin, { log, view: overrides, asOf, isProvider });
      const known = { knows: registry.knows, find: registry.find, behind: behindAlias(virtualModels) };
      registerRecalculation(admin, {
        enabled: config.pricingRecalculationEnabled,
        recalculate,
        modelsOf: (selector) => selectedModels(selector, known),
        now: Date.now,
        limitMs: RECALCULATION_LIMIT_MS,
      });
    },
  };
}

function behindAlias({ directory, facts }: PricingRoutes['virtualModels']): KnownModels['behind'] {
  return (alias) => {
    const { redirects } = directory;
    const model = redirects.get(alias);
    if (model === undefined) return undefined;
    const { candidates } = expand(model, { redirect: (source) => redirects.get(source), resolve: facts.resolve });
    return candidates.map(({ target }) => ({ provider: target.provider.name, model: target.model }));
  };
}

/** The jobs of this gateway among those on its log. */
interface GatewayJobsOptions {
  /** With the conditions of the lease. */
  readonly log: EventLog;
  readonly lease: Pick<GatewayLease, 'gateway' | 'known'>;
  /** Whether other gateways can use the log. */
  readonly isShared: boolean;
  readonly projections: ProjectionRunner;
  readonly onError: (error: unknown) => void;
}

export type GatewayJobs = Pick<Jobs, 'whenFree' | 'once' | 'stop'>;

/** Resolves when it is known who has each job. Where no other gateway can use the log, this one has all of them. */
export async function gatewayJobs(options: GatewayJobsOptions): Promise<GatewayJobs> {
  const { log, lease, isShared, projections, onError } = options;
  if (!isShared) return alone({ log, epoch: undefined });
  let waiting = Promise.withResolvers<void>();
  const running = projections.run(
    {
      ...jobsView,
      apply(state: JobsState, event) {
        const next = jobsView.apply(state, event);
        waiting.resolve();
        waiting = Promise.withResolvers<void>();
        return next;
      },
    },
    { hasEffects: true },
  );
  await running.caughtUp;
  const jobs = {
    get: (name: string) => running.state.get(name),
    whenProcessed: running.whenProcessed,
    changed: () => waiting.promise,
  };
  return new Jobs({ log, gateway: lease.gateway, leases: lease.known, jobs, onError });
}

function alone(held: HeldJob): GatewayJobs {
  return {
    whenFree: (_name: JobName, begin) => begin(held),
    once: (_name, work) => work(held),
    stop() {},
  };
}
