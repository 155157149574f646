/**
 * Spending, and how much of each budget is used up: a fold of every `usage.recorded` and its corrections, and of the
 * budgets themselves. A budget's meter is exact from its creation on; earlier spending of its first period comes from
 * buckets of an hour, or of a day before yesterday.
 *
 * Memory: a meter for each budget, and for each user path and label that spent something in the last 35 days at most 83
 * buckets of 16 bytes. Beyond `MAX_ACCOUNTS`, spending of a new path counts at the nearest known path above.
 */
import { LRUCache } from 'lru-cache';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../events/catalogue/budget.ts';
import { usageRecalculated, usageRecorded } from '../events/catalogue/exchange.ts';
import { pathsAbove, type RecordedEvent } from '../events/event.ts';
import {
  type BudgetPeriod,
  type BudgetsState,
  budgetsView,
  countIn,
  type Meter,
  meterOf,
  periodAt,
  readMeter,
} from './budgets.ts';
import { limitKey, subjectKey } from './limits.ts';
import { isA, type Projection } from './projection.ts';

// Spending of one user path, or one label, over time: by hour for recent days, by day before that. A budget that is
// made in the middle of a period starts with the spending of that period so far.

/** Pairs of an hour, counted from the epoch, and the nano-dollars spent from it on; ascending. */
type Buckets = number[];

const HOUR_MS = 3_600_000;
const DAY_HOURS = 24;

/** For how long spending is kept: longer than the longest month. */
const KEPT_DAYS = 35;

function hourOf(at: number): number {
  return Math.floor(at / HOUR_MS);
}

function dayOf(at: number): number {
  return Math.floor(at / (HOUR_MS * DAY_HOURS));
}

/** The first hour of a day. */
function firstHour(day: number): number {
  return day * DAY_HOURS;
}

/**
 * @param fineFrom the hour from which on buckets are hours; before it they are days
 * @param nano may be negative, for a correction: a bucket never falls below zero
 */
function addSpend(buckets: Buckets, hour: number, nano: number, fineFrom: number): void {
  const start = hour < fineFrom ? hour - (hour % DAY_HOURS) : hour;
  // Usually the bucket is the newest one, or comes after it.
  let index = buckets.length - 2;
  while (index >= 0 && (buckets[index] ?? 0) > start) index -= 2;
  if (index >= 0 && buckets[index] === start) {
    buckets[index + 1] = Math.max(0, (buckets[index + 1] ?? 0) + nano);
  } else if (index === buckets.length - 2) {
    buckets.push(start, Math.max(0, nano));
  } else {
    buckets.splice(index + 2, 0, start, Math.max(0, nano));
  }
}

/**
 * Spending since a time. A time within a bucket counts the whole bucket, so the result is never too small.
 * @returns undefined when no bucket reaches past that time
 */
function spentSince(buckets: Buckets, at: number, fineFrom: number): number | undefined {
  let spent: number | undefined;
  for (let index = buckets.length - 2; index >= 0; index -= 2) {
    const hour = buckets[index] ?? 0;
    const end = (hour + (hour < fineFrom ? DAY_HOURS : 1)) * HOUR_MS;
    if (end <= at) break;
    spent = (spent ?? 0) + (buckets[index + 1] ?? 0);
  }
  return spent;
}

/** Merges hours before `fineFrom` into days, and removes buckets before `keptFrom`. */
function compacted(buckets: Buckets, fineFrom: number, keptFrom: number): Buckets {
  const kept: Buckets = [];
  for (let index = 0; index < buckets.length; index += 2) {
    const hour = buckets[index] ?? 0;
    if (hour >= keptFrom) addSpend(kept, hour, buckets[index + 1] ?? 0, fineFrom);
  }
  return kept;
}

const MAX_ACCOUNTS = 20_000;
/** User paths with a cached list of meters. `max` would allocate them at once. */
const MAX_CHAINS = 10_000;
const NONE: readonly Meter[] = [];

export interface SpendState {
  budgets: BudgetsState;
  readonly paths: Map<string, Buckets>;
  readonly labels: Map<string, Buckets>;
  /** The newest day with spending. */
  day: number;
  readonly meters: Map<string, Meter>;
  /** The meters of each path or label that has any, by its `subjectKey`. */
  readonly bySubject: Map<string, readonly Meter[]>;
  /** The meters above a user path, its own included, root first. Emptied when a budget comes or goes. */
  readonly chains: LRUCache<string, readonly Meter[]>;
}

/** The lists of meters stay those of `meters`: one object that is saved twice is one again. */
type SavedSpend = Omit<SpendState, 'chains'>;

export const spendView: Projection<SpendState> = {
  name: 'spend',
  version: 2,
  filter: { types: [usageRecorded.type, usageRecalculated.type, ...(budgetsView.filter.types ?? [])] },
  initial: () => ({
    budgets: budgetsView.initial(),
    paths: new Map(),
    labels: new Map(),
    day: 0,
    meters: new Map(),
    bySubject: new Map(),
    chains: new LRUCache({ maxSize: MAX_CHAINS, sizeCalculation: () => 1 }),
  }),
  apply(state, event) {
    if (isA(event, usageRecorded)) {
      const { totalCost, cacheType, labels } = event.data;
      if (cacheType === undefined && totalCost !== null) {
        const { at, context } = event;
        charge(state, { at, isNow: true, nano: Number(totalCost), userPath: context.userPath ?? '/', labels });
      }
    } else if (isA(event, usageRecalculated)) {
      const { totalCost, previousTotalCost, usageAt, labels } = event.data;
      const nano = Number(totalCost ?? 0) - Number(previousTotalCost ?? 0);
      charge(state, { at: usageAt, isNow: false, nano, userPath: event.context.userPath ?? '/', labels });
    } else {
      state.budgets = budgetsView.apply(state.budgets, event);
      follow(state, event);
    }
    return state;
  },
  save: ({ chains, ...saved }) => saved satisfies SavedSpend,
  load: (saved) => ({
    ...(saved as SavedSpend),
    chains: new LRUCache({ maxSize: MAX_CHAINS, sizeCalculation: () => 1 }),
  }),
};

/** Every meter that usage of this path is charged to, root first. Usually from a cache. */
export function metersOn(state: SpendState, userPath: string): readonly Meter[] {
  let chain = state.chains.get(userPath);
  if (chain === undefined) {
    chain = metersAbove(state, userPath);
    state.chains.set(userPath, chain);
  }
  return chain;
}

/** The meters of one label. */
export function metersUnder(state: SpendState, label: string): readonly Meter[] {
  return state.bySubject.get(subjectKey('label', label)) ?? NONE;
}

interface Charge {
  /** Milliseconds since the epoch: when it was used. */
  readonly at: number;
  /** Whether the usage is new, and not a correction. */
  readonly isNow: boolean;
  /** Negative when a correction lowers the cost. */
  readonly nano: number;
  readonly userPath: string;
  readonly labels: readonly string[] | undefined;
}

/** Adds a cost to the account and the meters of a path and labels. */
export function charge(state: SpendState, used: Charge): void {
  const { at, isNow, nano, userPath, labels } = used;
  if (!Number.isFinite(nano)) return;
  if (dayOf(at) > state.day) beginDay(state, dayOf(at));
  else if (isNow && dayOf(at) < state.day - 1) state.day = dayOf(at);
  const hour = hourOf(at);
  const fine = fineFrom(state);
  if (hour >= keptFrom(state)) addSpend(pathAccount(state, userPath), hour, nano, fine);
  if (state.meters.size > 0)
    for (const meter of metersOn(state, userPath)) countIn(meter, state.budgets.settings, used);
  if (labels === undefined) return;
  for (const label of labels) {
    const account = labelAccount(state, label);
    if (account !== undefined && hour >= keptFrom(state)) addSpend(account, hour, nano, fine);
    for (const meter of metersUnder(state, label)) countIn(meter, state.budgets.settings, used);
  }
}

/** A day has begun: hours before yesterday are merged into days. */
function beginDay(state: SpendState, day: number): void {
  state.day = day;
  for (const accounts of [state.paths, state.labels]) {
    for (const [name, buckets] of accounts) {
      const kept = compacted(buckets, fineFrom(state), keptFrom(state));
      if (kept.length === 0) accounts.delete(name);
      else accounts.set(name, kept);
    }
  }
}

function fineFrom({ day }: SpendState): number {
  return firstHour(day - 1);
}

function keptFrom({ day }: SpendState): number {
  return firstHour(day - KEPT_DAYS);
}

function pathAccount({ paths }: SpendState, userPath: string): Buckets {
  let name = userPath;
  let account = paths.get(name);
  if (account !== undefined) return account;
  if (paths.size >= MAX_ACCOUNTS) {
    name = pathsAbove(userPath).findLast((path) => paths.has(path)) ?? '/';
    account = paths.get(name);
  }
  if (account === undefined) {
    account = [];
    paths.set(name, account);
  }
  return account;
}

function labelAccount({ labels }: SpendState, label: string): Buckets | undefined {
  let account = labels.get(label);
  if (account === undefined && labels.size < MAX_ACCOUNTS) {
    account = [];
    labels.set(label, account);
  }
  return account;
}

/** A budget was created, changed or removed: updates its meter. */
function follow(state: SpendState, event: RecordedEvent): void {
  if (isA(event, budgetSettingsChanged)) {
    for (const meter of state.meters.values()) moveAnchors(state, meter, event.at);
    return;
  }
  if (!isA(event, budgetSet) && !isA(event, budgetRemoved) && !isA(event, budgetReset)) return;
  const { periodSeconds } = event.data;
  const key = limitKey(event.data);
  const rule = state.budgets.rules.get(key);
  const meter = state.meters.get(key);
  if (rule === undefined) {
    remove(state, key);
  } else if (meter === undefined) {
    const made = meterOf(rule);
    add(state, made);
    open(state, made, periodAt(periodSeconds, state.budgets.settings, event.at));
  } else if (isA(event, budgetReset)) {
    const { end } = readMeter(meter, state.budgets.settings, event.at);
    Object.assign(meter, { start: event.at, end, spent: 0, hasUsage: false, left: undefined });
  } else {
    meter.amount = rule.amount;
  }
}

function moveAnchors(state: SpendState, meter: Meter, at: number): void {
  const { settings, rules } = state.budgets;
  const { start, end } = periodAt(meter.periodSeconds, settings, at);
  const begun = Math.max(start, rules.get(meter.key)?.lastResetAt ?? start);
  if (begun === meter.start) meter.end = end;
  else open(state, meter, { start: begun, end });
}

/** Begins a period with the spending in the buckets. */
function open(state: SpendState, meter: Meter, { start, end }: BudgetPeriod): void {
  const spent =
    meter.scope === 'label' ? spentUnder(state, meter.subject, start) : spentBelow(state, meter.subject, start);
  Object.assign(meter, { start, end, spent: spent ?? 0, hasUsage: spent !== undefined, left: undefined });
}

function spentUnder(state: SpendState, label: string, start: number): number | undefined {
  const buckets = state.labels.get(label);
  return buckets === undefined ? undefined : spentSince(buckets, start, fineFrom(state));
}

function spentBelow(state: SpendState, userPath: string, start: number): number | undefined {
  const prefix = userPath === '/' ? '/' : `${userPath}/`;
  let total: number | undefined;
  for (const [path, buckets] of state.paths) {
    if (path !== userPath && !path.startsWith(prefix)) continue;
    const spent = spentSince(buckets, start, fineFrom(state));
    if (spent !== undefined) total = (total ?? 0) + spent;
  }
  return total;
}

function metersAbove(state: SpendState, userPath: string): Meter[] {
  return pathsAbove(userPath).flatMap((path) => state.bySubject.get(subjectKey('user_path', path)) ?? NONE);
}

function add({ meters, bySubject, chains }: SpendState, meter: Meter): void {
  const subject = subjectKey(meter.scope, meter.subject);
  meters.set(meter.key, meter);
  bySubject.set(subject, [...(bySubject.get(subject) ?? NONE), meter]);
  chains.clear();
}

function remove({ meters, bySubject, chains }: SpendState, key: string): void {
  const meter = meters.get(key);
  if (meter === undefined) return;
  const subject = subjectKey(meter.scope, meter.subject);
  const others = (bySubject.get(subject) ?? NONE).filter((one) => one !== meter);
  meters.delete(key);
  if (others.length === 0) bySubject.delete(subject);
  else bySubject.set(subject, others);
  chains.clear();
}
