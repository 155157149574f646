/** Wiring of budgets: their spending, which is read from the log, and the reservations of requests under way. */
import { type BudgetAdmission, BudgetGate, type SpendLedger } from '../commands/admission/budget-gate.ts';
import { type ExceededBudget, SharedBudgetGate, type SharedLedger } from '../commands/admission/shared-budget-gate.ts';
import type { Config } from '../config/config.ts';
import { costReserved, usageRecorded, usageSettled } from '../events/catalogue/exchange.ts';
import type { EventLog } from '../events/log.ts';
import type { BudgetBooks, BudgetFigures } from '../http/admin/limits/budget-rows.ts';
import type { UsageOptions } from '../http/v1/usage.ts';
import { type Meter, readMeter } from '../projections/budget-meter.ts';
import {
  deferredFor,
  type ExceededMeter,
  hasRoom,
  reservedBy,
  reservedFor,
  roomsFor,
  type SharedSpendState,
  sharedSpendView,
} from '../projections/budget-reservations.ts';
import { isA } from '../projections/known-event.ts';
import type { ProjectionRunner, RunningProjection } from '../projections/runner.ts';
import { metersOn, metersUnder, type SpendState, spendView } from '../projections/spend.ts';
import { declareBudgets } from './declared-limits.ts';
import type { GatewayDeferredUsage } from './deferred-usage.ts';

export interface BudgetKeepingOptions {
  readonly config: Pick<Config, 'budgets'>;
  /** Whether the budgets of the configuration are recorded. Default: yes. */
  readonly declares?: boolean | undefined;
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  /** Work with unknown cost: its reservation is kept over a restart. */
  readonly deferred: Pick<GatewayDeferredUsage, 'open' | 'caughtUp'>;
}

export interface BudgetKeeping {
  readonly gate: BudgetAdmission;
  readonly books: BudgetBooks;
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
  const { ledger, books, declare } = kept(running, () => running.state, {
    ...{ config, declares, log },
    reserved: (scope, subject) => gate.reserved(scope, subject),
  });
  const gate = new BudgetGate(ledger, now, config.budgets.reservations?.maxWaitMs);
  return {
    gate,
    books,
    of: ledger.metersOf,
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
  const { ledger, books, declare } = kept(running, () => running.state.spend, {
    ...{ config, declares, log },
    reserved: (scope, subject) => reservedFor(running.state, scope, subject),
  });
  const shared: SharedLedger = {
    get any() {
      return ledger.any;
    },
    reservedBy: (stream) => reservedBy(running.state, stream),
    fitsWithoutBound: ({ budget: { amount, spent }, reserved }, nano) =>
      hasRoom({ meter: { amount }, spent, reserved }, { amount: nano, isBounded: nano === 0 }),
    roomsFor: (exchange, more) =>
      roomsFor(running.state, exchange, ({ scope, subject }) => more(scope, subject)).map((room) =>
        exceededBudget(room, exchange.at),
      ),
    deferred: (scope, subject) => deferredFor(running.state, scope, subject),
    whenProcessed: (position) => running.whenProcessed(position),
  };
  const gate = new SharedBudgetGate(shared, now, config.budgets.reservations?.maxWaitMs);
  return { gate, books, of: ledger.metersOf, begin: declare };
}

function kept(
  running: Pick<RunningProjection<unknown>, 'whenProcessed'>,
  spend: () => SpendState,
  {
    config,
    declares,
    log,
    reserved,
  }: Pick<BudgetKeepingOptions, 'config' | 'declares' | 'log'> & Pick<BudgetFigures, 'reserved'>,
) {
  const read = (meter: Meter, at: number) => {
    const { start, end, spent, hasUsage } = readMeter(meter, spend().budgets.settings, at);
    const { scope, subject, periodSeconds, amount } = meter;
    return { scope, subject, periodSeconds, amount, start, end, spent, hasUsage };
  };
  const ledger = {
    get any() {
      return spend().meters.size > 0;
    },
    metersOf(userPath: string, labels: readonly string[] | undefined, at: number) {
      const state = spend();
      const above = metersOn(state, userPath);
      const all = labels === undefined ? above : [...above, ...labels.flatMap((label) => metersUnder(state, label))];
      return all.map((meter) => read(meter, at));
    },
  } satisfies SpendLedger;
  const books: BudgetBooks = {
    get state() {
      return spend().budgets;
    },
    whenProcessed: (position) => running.whenProcessed(position),
    spent(key) {
      const meter = spend().meters.get(key);
      return meter === undefined ? undefined : read(meter, now());
    },
    reserved,
  };
  return {
    ledger,
    books,
    /** Records the budgets of the configuration. */
    async declare() {
      await running.whenProcessed(await log.head());
      if (declares === false) return;
      const declared = await declareBudgets(config.budgets.declared, books.state.rules.values(), log);
      if (declared !== undefined) await running.whenProcessed(declared);
    },
  };
}

function exceededBudget({ meter, spent, reserved, end }: ExceededMeter, at: number): ExceededBudget {
  const { scope, subject, periodSeconds, amount } = meter;
  return { budget: { scope, subject, periodSeconds, amount, spent, end }, reserved, at };
}
