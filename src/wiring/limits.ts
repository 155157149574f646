/** Wiring of budgets and rate limits: spending, counters and admission. */

import type { KeyDirectory } from '../commands/access/key-directory.ts';
import { BudgetGate, type SpendLedger } from '../commands/admission/budget-gate.ts';
import { CostForecaster, type LongestAnswers } from '../commands/admission/cost-forecast.ts';
import { LimitAdmission } from '../commands/admission/limit-admission.ts';
import { RateLimiter } from '../commands/admission/rate-limiter.ts';
import { type ExchangesElsewhere, RequestsElsewhere, restoreLimits } from '../commands/admission/requests-elsewhere.ts';
import { type Admission, withoutLimits } from '../commands/model-request/admission.ts';
import type { Pricing } from '../commands/pricing/pricing.ts';
import type { Refusal } from '../commands/refusal.ts';
import type { Config } from '../config/config.ts';
import {
  attemptStarted,
  exchangeEnds,
  exchangeResumed,
  requestReceived,
  usageRecorded,
} from '../events/catalogue/exchange.ts';
import { leaseEnded, leaseGranted } from '../events/catalogue/gateway.ts';
import { idOf } from '../events/event.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import { registerBudgets } from '../http/admin/limits/budgets.ts';
import { type RateLimitView, registerRateLimits } from '../http/admin/limits/rate-limits.ts';
import type { Routes } from '../http/api/route-schema.ts';
import type { ReadToPresent } from '../http/server.ts';
import { registerUsage, type UsageFigures, type UsageOptions } from '../http/v1/usage.ts';
import type { OpenWork } from '../projections/deferred-usage.ts';
import { LimitMemoryStore } from '../projections/limit-memory-store.ts';
import { limitKey, rateLimitsView } from '../projections/limits.ts';
import { isA, type Projection, savedAsItIs } from '../projections/projection.ts';
import type { ViewStore } from '../projections/view-store.ts';
import { type BudgetKeepingOptions, budgetKeeping, declareRateLimits, sharedBudgetKeeping } from './budgets.ts';

export interface LimitsOptions extends BudgetKeepingOptions {
  readonly config: Pick<Config, 'budgets' | 'rateLimits'>;
  /** Whether several gateways use the log. */
  readonly isShared: boolean;
  /** Id of this gateway, once it has its lease. */
  readonly gateway: () => string;
  readonly views: ViewStore;
  readonly pricing: Pricing;
  /** The output limit and the context window of a model. Default: unknown. */
  readonly longestAnswer?: LongestAnswers['of'];
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
  const { config, pricing, isShared } = options;
  const keeping = isShared ? sharedBudgetKeeping : budgetKeeping;
  const budgets = config.budgets.enabled ? keeping(options) : undefined;
  const rateLimits = config.rateLimits.enabled ? rateLimiting(options) : undefined;
  const refused = new Map<string, number>();
  const { sendsLimits = false, usualOutput = Number.POSITIVE_INFINITY } = config.budgets.reservations ?? {};
  const of = options.longestAnswer ?? (() => ({}));
  const forecaster = new CostForecaster(pricing, { of, usual: usualOutput, isSent: sendsLimits });
  const admission: Admission =
    budgets === undefined && rateLimits === undefined
      ? withoutLimits
      : new LimitAdmission({
          budgets: budgets?.gate ?? new BudgetGate(noBudgets, now),
          limits: rateLimits?.limiter ?? new RateLimiter({ state: noRules }, now),
          forecaster,
          now,
          refused: ({ code }: Refusal) => refused.set(code ?? '', (refused.get(code ?? '') ?? 0) + 1),
        });
  const open = () => (admission instanceof LimitAdmission ? admission.open : new Set<string>());
  return {
    admission,
    /** Counts the tokens of a response that its provider completed after its answer. */
    countTokens({ userPath, provider, model }: OpenWork, tokens: number) {
      // On a shared log, every gateway counts them as they are read.
      if (isShared) return;
      rateLimits?.limiter.recount({ at: now(), userPath: userPath ?? '/', target: { provider, model }, tokens });
    },
    /** The expected cost and tokens of one request of a batch. */
    forecast: ((...request) => forecaster.ofBatch(...request)) satisfies CostForecaster['ofBatch'],
    /** Whether there is any budget. */
    countsBudgets: () => budgets?.gate.isOpen === false,
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
      registerBudgets(admin, { log, view: budgets?.view, asOf, keys, now });
      registerRateLimits(admin, { log, view: rateLimits?.view, asOf, keys, isProvider, now });
    },
    registerUsage: (app: Routes, figures: UsageFigures, readToPresent: ReadToPresent | undefined) =>
      registerUsage(app, {
        figures,
        budgetsOf: budgets?.of ?? (() => []),
        rateLimitsOf: rateLimits?.of ?? (() => []),
        now,
        readToPresent,
      }),
    /** Saves the counters. */
    stop: async () => rateLimits?.stop(),
  };
}

function rateLimiting({ config, declares, log, isShared, gateway, views, projections, onError }: LimitsOptions) {
  const running = projections.run(rateLimitsView);
  const limiter = new RateLimiter(running, now);
  const elsewhere = isShared ? countElsewhere(limiter, { projections, gateway }) : undefined;
  const position = elsewhere && (() => elsewhere.position);
  const store = new LimitMemoryStore({ log, views, onError, ...(position === undefined ? {} : { position }) });
  const memory = store.load();
  memory.catch(() => {});
  const view: RateLimitView = {
    get state() {
      return running.state;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    used: (rule) => limiter.counts(limitKey(rule))?.read(now()),
  };
  return {
    limiter,
    view,
    of: ((userPath, at) =>
      limiter.on(userPath).map((counts) => {
        const { subject, periodSeconds, maxRequests, maxTokens } = counts.rule;
        return { subject, periodSeconds, maxRequests, maxTokens, ...counts.read(at) };
      })) satisfies UsageOptions['rateLimitsOf'],
    async begin(open: () => ReadonlySet<string>) {
      await running.whenProcessed(await log.head());
      const { declared: rows } = config.rateLimits;
      const declared = declares === false ? undefined : await declareRateLimits(rows, running, log);
      if (declared !== undefined) await running.whenProcessed(declared);
      await elsewhere?.caughtUp;
      const upTo = elsewhere?.begin();
      await restoreLimits({ log, limiter, rules: running.state, memory: await memory, upTo, now: now() });
      store.begin(() => ({ gauges: limiter.save(), open: [...open()] }));
    },
    stop: () => store.stop(),
  };
}

/** The requests of other gateways, counted as they are read. */
function countElsewhere(
  limiter: RateLimiter,
  { projections, gateway }: Pick<LimitsOptions, 'projections' | 'gateway'>,
) {
  const counts = new RequestsElsewhere(limiter, gateway);
  const running = projections.run(
    {
      ...limitedExchangesView,
      apply(state: ExchangesElsewhere, event) {
        const next = limitedExchangesView.apply(state, event);
        counts.read(next, event);
        return next;
      },
    },
    { hasEffects: true },
  );
  return {
    get position() {
      return running.position;
    },
    caughtUp: running.caughtUp,
    /** @returns up to where the log is not counted */
    begin() {
      const { position } = running;
      counts.begin(running.state, position);
      return position;
    },
  };
}

const noBudgets: SpendLedger = { any: false, countersOf: () => [] };
const noRules = { changes: 0, rules: new Map() };

/** Memory: one small entry for each open exchange. */
export const limitedExchangesView: Projection<ExchangesElsewhere> = {
  name: 'limited-exchanges',
  version: 1,
  filter: {
    types: [
      requestReceived.type,
      attemptStarted.type,
      exchangeResumed.type,
      usageRecorded.type,
      ...exchangeEnds,
      leaseEnded.type,
      leaseGranted.type,
    ],
  },
  initial: () => ({ open: new Map(), ended: undefined }),
  apply(state, event) {
    const id = idOf(event.stream);
    if (isA(event, usageRecorded)) {
      if (state.ended?.id !== id) state.ended = undefined;
      return state;
    }
    state.ended = undefined;
    if (isA(event, leaseEnded)) inherit(state, id, event.data.heir);
    else if (isA(event, leaseGranted)) inherit(state, undefined, id);
    else if (isA(event, requestReceived)) {
      state.open.set(id, {
        id,
        gateway: event.data.gateway,
        isInherited: false,
        userPath: event.context.userPath ?? '/',
        isAuxiliary: event.data.origin !== undefined,
        calls: 0,
        provider: '',
        model: '',
      });
    } else {
      const exchange = state.open.get(id);
      if (exchange === undefined) return state;
      if (isA(event, attemptStarted)) {
        const { provider, model = '' } = event.data;
        Object.assign(exchange, { calls: exchange.calls + 1, provider, model });
      } else if (isA(event, exchangeResumed)) Object.assign(exchange, { calls: 0, isInherited: false });
      else {
        state.open.delete(id);
        state.ended = exchange;
      }
    }
    return state;
  },
  ...savedAsItIs<ExchangesElsewhere>(),
};

function inherit({ open }: ExchangesElsewhere, gateway: string | undefined, heir: string | undefined): void {
  for (const exchange of open.values()) {
    if (exchange.gateway === gateway) Object.assign(exchange, { gateway: heir, isInherited: true });
  }
}
