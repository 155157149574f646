/** Wiring of budgets and rate limits: spending, counters and admission. */
import type { KeyDirectory } from '../commands/access/key-directory.ts';
import { BudgetGate, type SpendLedger } from '../commands/admission/budget-gate.ts';
import { CostForecaster } from '../commands/admission/cost-forecast.ts';
import { LimitAdmission } from '../commands/admission/limit-admission.ts';
import { restoreLimits } from '../commands/admission/limit-memory.ts';
import { RateLimiter } from '../commands/admission/rate-limiter.ts';
import type { OpenWork } from '../commands/deferred/open-work.ts';
import { type Admission, withoutLimits } from '../commands/model-request/admission.ts';
import type { Pricing } from '../commands/pricing/pricing.ts';
import type { Refusal } from '../commands/refusal.ts';
import type { Config } from '../config/config.ts';
import { usageRecorded, usageSettled } from '../events/catalogue/exchange.ts';
import type { EventLog } from '../events/log.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import type { BudgetBooks } from '../http/admin/budget-rows.ts';
import { registerBudgets } from '../http/admin/budgets.ts';
import { type RateLimitBooks, registerRateLimits } from '../http/admin/rate-limits.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { registerUsage, type UsageFigures, type UsageOptions } from '../http/v1/usage.ts';
import { type Meter, readMeter } from '../projections/budget-meter.ts';
import { isA } from '../projections/known-event.ts';
import { LimitMemoryStore } from '../projections/limit-memory-store.ts';
import { rateLimitsView } from '../projections/rate-limits.ts';
import type { ProjectionRunner } from '../projections/runner.ts';
import { metersOn, metersUnder, type SpendState, spendView } from '../projections/spend.ts';
import type { ViewStore } from '../projections/view-store.ts';
import { declareBudgets, declareRateLimits } from './declared-limits.ts';
import type { GatewayDeferredUsage } from './deferred-usage.ts';

export interface LimitsOptions {
  readonly config: Pick<Config, 'budgets' | 'rateLimits'>;
  readonly log: EventLog;
  readonly views: ViewStore;
  readonly projections: ProjectionRunner;
  readonly pricing: Pricing;
  /** Work with unknown cost: its reservation is kept over a restart. */
  readonly deferred: Pick<GatewayDeferredUsage, 'open' | 'caughtUp'>;
  readonly onError: (error: unknown) => void;
}

export interface AdminParts {
  readonly asOf: AsOf;
  readonly keys: Pick<KeyDirectory, 'byId'>;
  isProvider(name: string): boolean;
}

export type Limits = ReturnType<typeof createLimits>;

const now = Date.now;

/** Starts to read the log at once: to be called before the first append. */
export function createLimits(options: LimitsOptions) {
  const { config, pricing } = options;
  const budgets = config.budgets.enabled ? budgetKeeping(options) : undefined;
  const rateLimits = config.rateLimits.enabled ? rateLimiting(options) : undefined;
  const refused = new Map<string, number>();
  const forecaster = new CostForecaster(pricing);
  const admission: Admission =
    budgets === undefined && rateLimits === undefined
      ? withoutLimits
      : new LimitAdmission({
          budgets: budgets?.gate ?? new BudgetGate(noBudgets, now),
          limits: rateLimits?.limiter ?? new RateLimiter(() => noRules, now),
          forecaster,
          now,
          refused: ({ code }: Refusal) => refused.set(code ?? '', (refused.get(code ?? '') ?? 0) + 1),
        });
  const open = () => (admission instanceof LimitAdmission ? admission.open : new Set<string>());
  return {
    admission,
    /** Counts the tokens of a response that its provider completed after its answer. */
    countTokens: ({ userPath, provider, model }: OpenWork, tokens: number) =>
      rateLimits?.limiter.recount({ at: now(), userPath: userPath ?? '/', target: { provider, model }, tokens }),
    /** The expected cost and tokens of one request of a batch. */
    forecast: ((...request) => forecaster.ofBatch(...request)) satisfies CostForecaster['ofBatch'],
    /** Number of refused requests and targets, by the code of the refusal. */
    refused,
    /**
     * Records the limits of the configuration in the log, and counts the requests admitted before the last stop. To be
     * awaited before the first request, and after open exchanges of the last run are closed.
     */
    async begin() {
      await budgets?.begin();
      await rateLimits?.begin(open);
    },
    registerAdmin(admin: Routes, { asOf, keys, isProvider }: AdminParts) {
      const { log } = options;
      registerBudgets(admin, { log, budgets: budgets?.books, asOf, keys, now });
      registerRateLimits(admin, { log, rateLimits: rateLimits?.books, asOf, keys, isProvider, now });
    },
    registerUsage: (app: Routes, figures: UsageFigures) =>
      registerUsage(app, {
        figures,
        budgetsOf: budgets?.of ?? (() => []),
        rateLimitsOf: rateLimits?.of ?? (() => []),
        now,
      }),
    /** Saves the counters. */
    stop: async () => rateLimits?.stop(),
  };
}

function budgetKeeping({ config, log, projections, deferred }: LimitsOptions) {
  // Releases a reservation in the same step in which the ledger counts its cost.
  const running = projections.run({
    ...spendView,
    filter: { types: [...(spendView.filter.types ?? []), usageSettled.type] },
    apply(state: SpendState, event) {
      if (isA(event, usageSettled)) {
        gate.releaseDeferred(event.stream);
        return state;
      }
      const next = spendView.apply(state, event);
      if (isA(event, usageRecorded)) gate.releaseCounted(event.stream, Number(event.data.totalCost ?? 0));
      return next;
    },
  });
  const read = (meter: Meter, at: number) => {
    const { start, end, spent, hasUsage } = readMeter(meter, running.state.budgets.settings, at);
    const { scope, subject, periodSeconds, amount } = meter;
    return { scope, subject, periodSeconds, amount, start, end, spent, hasUsage };
  };
  const ledger = {
    get any() {
      return running.state.meters.size > 0;
    },
    metersOf(userPath: string, labels: readonly string[] | undefined, at: number) {
      const { state } = running;
      const above = metersOn(state, userPath);
      const all = labels === undefined ? above : [...above, ...labels.flatMap((label) => metersUnder(state, label))];
      return all.map((meter) => read(meter, at));
    },
  } satisfies SpendLedger;
  const gate = new BudgetGate(ledger, now);
  const books: BudgetBooks = {
    get state() {
      return running.state.budgets;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    spent(key) {
      const meter = running.state.meters.get(key);
      return meter === undefined ? undefined : read(meter, now());
    },
  };
  return {
    gate,
    books,
    of: ledger.metersOf satisfies UsageOptions['budgetsOf'],
    async begin() {
      await running.whenProcessed(await log.head());
      const declared = await declareBudgets(config.budgets.declared, books.state.rules.values(), log);
      if (declared !== undefined) await running.whenProcessed(declared);
      await deferred.caughtUp;
      for (const [stream, { userPath = '/', labels, reserved }] of deferred.open()) {
        if (reserved !== undefined) gate.restore(stream, { userPath, labels }, reserved);
      }
    },
  };
}

function rateLimiting({ config, log, views, projections, onError }: LimitsOptions) {
  const running = projections.run(rateLimitsView);
  const rules = () => running.state;
  const limiter = new RateLimiter(rules, now);
  const store = new LimitMemoryStore({ log, views, onError });
  const memory = store.load();
  memory.catch(() => {});
  const books: RateLimitBooks = {
    get state() {
      return running.state;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    gauge: (key) => limiter.gauge(key)?.read(now()),
  };
  return {
    limiter,
    books,
    of: ((userPath, at) =>
      limiter.on(userPath).map((gauge) => {
        const { subject, periodSeconds, maxRequests, maxTokens } = gauge.rule;
        return { subject, periodSeconds, maxRequests, maxTokens, ...gauge.read(at) };
      })) satisfies UsageOptions['rateLimitsOf'],
    async begin(open: () => ReadonlySet<string>) {
      await running.whenProcessed(await log.head());
      const declared = await declareRateLimits(config.rateLimits.declared, running.state.rules.values(), log);
      if (declared !== undefined) await running.whenProcessed(declared);
      await restoreLimits({ log, limiter, rules: running.state, memory: await memory, now: now() });
      store.begin(() => ({ gauges: limiter.save(), open: [...open()] }));
    },
    stop: () => store.stop(),
  };
}

const noBudgets: SpendLedger = { any: false, metersOf: () => [] };
const noRules = { changes: 0, rules: new Map() };
