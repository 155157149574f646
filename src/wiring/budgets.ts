/** Wiring of budgets: their spending, which is read from the log, and the reservations of requests under way. */
import { type BudgetAdmission, BudgetGate, type SpendLedger } from '../commands/admission/budget-gate.ts';
import { type ExceededBudget, SharedBudgetGate, type SharedLedger } from '../commands/admission/shared-budget-gate.ts';
import { DeferredUsage } from '../commands/deferred/deferred-usage.ts';
import type { OpenWorks } from '../commands/deferred/open-work.ts';
import type { HeldJob } from '../commands/gateways/jobs.ts';
import { budgetKind, nanoOf } from '../commands/limits/budget.ts';
import { declareLimits } from '../commands/limits/limit.ts';
import { rateLimitKind } from '../commands/limits/rate-limit.ts';
import type { Pricing } from '../commands/pricing/pricing.ts';
import { type CheckDependencies, checkWork, WorkFollower } from '../commands/work-follower/work-follower.ts';
import type { Config } from '../config/config.ts';
import type { BudgetConfig, RateLimitConfig } from '../config/limits-schema.ts';
import { costReserved, usageRecorded, usageSettled } from '../events/catalogue/exchange.ts';
import type { StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import type { BudgetView } from '../http/admin/limits/budgets.ts';
import type { RateLimitView } from '../http/admin/limits/rate-limits.ts';
import { parseUserPath } from '../http/request-head.ts';
import type { UsageOptions } from '../http/v1/usage.ts';
import {
  deferredFor,
  type ExceededCounter,
  hasRoom,
  reservedBy,
  reservedFor,
  roomsFor,
  type SharedSpendState,
  sharedSpendView,
} from '../projections/budget-reservations.ts';
import { type BudgetCounter, type BudgetScope, readCounter } from '../projections/budgets.ts';
import type { OpenWork } from '../projections/deferred-usage.ts';
import { deferredUsageView, workKey } from '../projections/deferred-usage.ts';
import { limitKey } from '../projections/limits.ts';
import { isA } from '../projections/projection.ts';
import type { ProjectionRunner, RunningProjection } from '../projections/runner.ts';
import { countersOn, countersUnder, type SpendState, spendView } from '../projections/spend.ts';

export interface BudgetKeepingOptions {
  readonly config: Pick<Config, 'budgets'>;
  /** Whether the limits of the configuration are recorded. Default: yes. */
  readonly declares?: boolean | undefined;
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  /** Work with unknown cost: its reservation is kept over a restart. */
  readonly deferred: Pick<GatewayDeferredUsage, 'open' | 'caughtUp'>;
}

export interface BudgetKeeping {
  readonly gate: BudgetAdmission;
  readonly view: BudgetView;
  readonly of: UsageOptions['budgetsOf'];
  /** To be awaited before the first request. */
  begin(): Promise<void>;
}

const now = Date.now;

/** Where one gateway at a time uses the log: what is reserved is in its memory. */
export function budgetKeeping({ config, declares, log, projections, deferred }: BudgetKeepingOptions): BudgetKeeping {
  // Releases a reservation in the same step in which the ledger counts its cost.
  const running = projections.run(
    {
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
    },
    { hasEffects: true },
  );
  const { ledger, view, declare } = kept(running, () => running.state, {
    ...{ config, declares, log },
    reserved: (scope, subject) => gate.reserved(scope, subject),
  });
  const gate = new BudgetGate(ledger, now, config.budgets.reservations?.maxWaitMs);
  return {
    gate,
    view,
    of: ledger.countersOf,
    async begin() {
      await declare();
      await deferred.caughtUp;
      for (const [stream, { userPath = '/', labels, reserved }] of deferred.open()) {
        if (reserved !== undefined) gate.restore(stream, { userPath, labels }, reserved);
      }
    },
  };
}

/** Where several gateways use the log: what is reserved is in the log, and its order decides. */
export function sharedBudgetKeeping({ config, declares, log, projections }: BudgetKeepingOptions): BudgetKeeping {
  const running = projections.run(
    {
      ...sharedSpendView,
      apply(state: SharedSpendState, event) {
        const next = sharedSpendView.apply(state, event);
        if (isA(event, costReserved)) gate.read(event.stream, next.refused && exceededBudget(next.refused, event.at));
        else gate.changed();
        return next;
      },
    },
    { hasEffects: true },
  );
  const { ledger, view, declare } = kept(running, () => running.state.spend, {
    ...{ config, declares, log },
    reserved: (scope, subject) => reservedFor(running.state, scope, subject),
  });
  const shared: SharedLedger = {
    get any() {
      return ledger.any;
    },
    reservedBy: (stream) => reservedBy(running.state, stream),
    fitsWithoutBound: ({ budget: { amount, spent }, reserved }, nano) =>
      hasRoom({ counter: { amount }, spent, reserved }, { amount: nano, isBounded: nano === 0 }),
    roomsFor: (exchange, more) =>
      roomsFor(running.state, exchange, ({ scope, subject }) => more(scope, subject)).map((room) =>
        exceededBudget(room, exchange.at),
      ),
    deferred: (scope, subject) => deferredFor(running.state, scope, subject),
    whenProcessed: (position) => running.whenProcessed(position),
  };
  const gate = new SharedBudgetGate(shared, now, config.budgets.reservations?.maxWaitMs);
  return { gate, view, of: ledger.countersOf, begin: declare };
}

function kept(
  running: Pick<RunningProjection<unknown>, 'whenProcessed'>,
  spend: () => SpendState,
  {
    config,
    declares,
    log,
    reserved,
  }: Pick<BudgetKeepingOptions, 'config' | 'declares' | 'log'> & {
    /** Nano-dollars that are reserved for all budgets of a path or label. */
    reserved(scope: BudgetScope, subject: string): number;
  },
) {
  const read = (counter: BudgetCounter, at: number) => {
    const { start, end, spent, hasUsage } = readCounter(counter, spend().budgets.settings, at);
    const { scope, subject, periodSeconds, amount } = counter;
    return { scope, subject, periodSeconds, amount, start, end, spent, hasUsage };
  };
  const ledger = {
    get any() {
      return spend().counters.size > 0;
    },
    countersOf(userPath: string, labels: readonly string[] | undefined, at: number) {
      const state = spend();
      const above = countersOn(state, userPath);
      const all = labels === undefined ? above : [...above, ...labels.flatMap((label) => countersUnder(state, label))];
      return all.map((counter) => read(counter, at));
    },
  } satisfies SpendLedger;
  const view: BudgetView = {
    get state() {
      return spend().budgets;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    used(rule) {
      const counter = spend().counters.get(limitKey(rule));
      const { scope, subject } = rule;
      return { spent: counter && read(counter, now()), reserved: reserved(scope as BudgetScope, subject) };
    },
  };
  return {
    ledger,
    view,
    /** Records the budgets of the configuration. */
    async declare() {
      await running.whenProcessed(await log.head());
      if (declares === false) return;
      const declared = await declareBudgets(config.budgets.declared, view, log);
      if (declared !== undefined) await running.whenProcessed(declared);
    },
  };
}

function exceededBudget({ counter, spent, reserved, end }: ExceededCounter, at: number): ExceededBudget {
  const { scope, subject, periodSeconds, amount } = counter;
  return { budget: { scope, subject, periodSeconds, amount, spent, end }, reserved, at };
}

/** Records the budgets of the configuration. @throws Refusal for an invalid user path */
function declareBudgets(declared: BudgetConfig['declared'], { state }: Pick<BudgetView, 'state'>, log: EventLog) {
  const rows = declared.map(({ scope, subject, period, amount }) => ({
    scope,
    subject: scope === 'user_path' ? parseUserPath(subject, 'budgets.user_paths.path') : subject,
    periodSeconds: known(budgetKind.periodOf(period), period),
    value: { amount: String(known(nanoOf(amount), amount)) },
  }));
  return declareLimits(budgetKind, rows, state.rules.values(), log);
}

/** The same for rate limits. */
export function declareRateLimits(
  declared: RateLimitConfig['declared'],
  { state }: Pick<RateLimitView, 'state'>,
  log: EventLog,
) {
  const rows = declared.map(({ scope, subject, period, maxRequests, maxTokens }) => ({
    scope,
    subject: scope === 'user_path' ? parseUserPath(subject, 'rate_limits.user_paths.path') : subject,
    periodSeconds: known(rateLimitKind.periodOf(period), period),
    value: { maxRequests, maxTokens },
  }));
  return declareLimits(rateLimitKind, rows, state.rules.values(), log);
}

/** The schema of the configuration allows no other values. */
function known<Value>(value: Value | undefined, written: string | number): Value {
  if (value === undefined) throw new Error(`'${written}' is neither a period nor an amount`);
  return value;
}

/** Wiring of deferred usage: the cost of work that providers continue after their answer, tracked from the log. */
interface DeferredUsageWiring {
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  readonly pricing: Pricing;
  readonly countTokens: (work: OpenWork, tokens: number) => void;
  readonly onError: (error: unknown) => void;
}

export type GatewayDeferredUsage = ReturnType<typeof gatewayDeferredUsage>;

export function gatewayDeferredUsage({ log, projections, pricing, countTokens, onError }: DeferredUsageWiring) {
  const running = projections.run(deferredUsageView);
  const works: OpenWorks = {
    find(kind, provider, workId) {
      const stream = running.state.byWork.get(workKey({ kind, provider, workId }));
      return stream === undefined ? undefined : running.state.open.get(stream);
    },
  };
  const usage = new DeferredUsage({ log, pricing, countTokens, works });
  const open = (): ReadonlyMap<StreamName, OpenWork> => running.state.open;
  let follower: WorkFollower | undefined;
  return {
    usage,
    /** The work that has not ended. */
    open,
    /** Resolves when all events about such work in the log have been read. */
    caughtUp: running.caughtUp,
    /** Starts to query providers. @param held the job of doing so */
    follow(held: HeldJob, deps: Omit<CheckDependencies, 'deferred'>) {
      const deferred = new DeferredUsage({ log: held.log, pricing, countTokens, works });
      follower = new WorkFollower({
        open,
        look: (work, isTooOld, signal) => checkWork(work, isTooOld, signal, { ...deps, deferred }),
        now: Date.now,
        onError,
      });
      follower.begin();
    },
    stop: async () => follower?.stop(),
  };
}
