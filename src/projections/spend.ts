/**
 * Spending, and how much of each budget is used up: a fold of every `usage.recorded` and its corrections, and of the
 * budgets themselves. A budget's counter is exact from its creation on; earlier spending of its first period comes from
 * buckets of an hour, or of a day before yesterday.
 *
 * Memory: a counter for each budget, and for each user path and label that spent something in the last 35 days at most 83
 * buckets of 16 bytes. Beyond `MAX_ACCOUNTS`, spending of a new path counts at the nearest known path above.
 */
import { LRUCache } from 'lru-cache';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../events/catalogue/budget.ts';
import { usageRecalculated, usageRecorded } from '../events/catalogue/exchange.ts';
import { pathsAbove, type RecordedEvent } from '../events/event.ts';
import {
  type BudgetCounter,
  type BudgetPeriod,
  type BudgetsState,
  budgetsView,
  countIn,
  newCounter,
  periodAt,
  readCounter,
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
/** User paths with a cached list of counters. `max` would allocate them at once. */
const MAX_CHAINS = 10_000;
const NONE: readonly BudgetCounter[] = [];

export interface SpendState {
  budgets: BudgetsState;
  readonly paths: Map<string, Buckets>;
  readonly labels: Map<string, Buckets>;
  /** The newest day with spending. */
  day: number;
  readonly counters: Map<string, BudgetCounter>;
  /** The counters of each path or label that has any, by its `subjectKey`. */
  readonly bySubject: Map<string, readonly BudgetCounter[]>;
  /** The counters above a user path, its own included, root first. Emptied when a budget comes or goes. */
  readonly chains: LRUCache<string, readonly BudgetCounter[]>;
}

/** The lists of counters stay those of `counters`: one object that is saved twice is one again. */
type SavedSpend = Omit<SpendState, 'chains'>;

export const spendView: Projection<SpendState> = {
  name: 'spend',
  version: 3,
  filter: { types: [usageRecorded.type, usageRecalculated.type, ...(budgetsView.filter.types ?? [])] },
  initial: () => ({
    budgets: budgetsView.initial(),
    paths: new Map(),
    labels: new Map(),
    day: 0,
    counters: new Map(),
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

/** Every counter that usage of this path is charged to, root first. Usually from a cache. */
export function countersOn(state: SpendState, userPath: string): readonly BudgetCounter[] {
  let chain = state.chains.get(userPath);
  if (chain === undefined) {
    chain = countersAbove(state, userPath);
    state.chains.set(userPath, chain);
  }
  return chain;
}

/** The counters of one label. */
export function countersUnder(state: SpendState, label: string): readonly BudgetCounter[] {
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

/** Adds a cost to the account and the counters of a path and labels. */
export function charge(state: SpendState, used: Charge): void {
  const { at, isNow, nano, userPath, labels } = used;
  if (!Number.isFinite(nano)) return;
  if (dayOf(at) > state.day) beginDay(state, dayOf(at));
  else if (isNow && dayOf(at) < state.day - 1) state.day = dayOf(at);
  const hour = hourOf(at);
  const fine = fineFrom(state);
  if (hour >= keptFrom(state)) addSpend(pathAccount(state, userPath), hour, nano, fine);
  if (state.counters.size > 0)
    for (const counter of countersOn(state, userPath)) countIn(counter, state.budgets.settings, used);
  if (labels === undefined) return;
  for (const label of labels) {
    const account = labelAccount(state, label);
    if (account !== undefined && hour >= keptFrom(state)) addSpend(account, hour, nano, fine);
    for (const counter of countersUnder(state, label)) countIn(counter, state.budgets.settings, used);
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

/** A budget was created, changed or removed: updates its counter. */
function follow(state: SpendState, event: RecordedEvent): void {
  if (isA(event, budgetSettingsChanged)) {
    for (const counter of state.counters.values()) moveAnchors(state, counter, event.at);
    return;
  }
  if (!isA(event, budgetSet) && !isA(event, budgetRemoved) && !isA(event, budgetReset)) return;
  const { periodSeconds } = event.data;
  const key = limitKey(event.data);
  const rule = state.budgets.rules.get(key);
  const counter = state.counters.get(key);
  if (rule === undefined) {
    remove(state, key);
  } else if (counter === undefined) {
    const made = newCounter(rule);
    add(state, made);
    open(state, made, periodAt(periodSeconds, state.budgets.settings, event.at));
  } else if (isA(event, budgetReset)) {
    const { end } = readCounter(counter, state.budgets.settings, event.at);
    Object.assign(counter, { start: event.at, end, spent: 0, hasUsage: false, left: undefined });
  } else {
    counter.amount = rule.amount;
  }
}

function moveAnchors(state: SpendState, counter: BudgetCounter, at: number): void {
  const { settings, rules } = state.budgets;
  const { start, end } = periodAt(counter.periodSeconds, settings, at);
  const begun = Math.max(start, rules.get(counter.key)?.lastResetAt ?? start);
  if (begun === counter.start) counter.end = end;
  else open(state, counter, { start: begun, end });
}

/** Begins a period with the spending in the buckets. */
function open(state: SpendState, counter: BudgetCounter, { start, end }: BudgetPeriod): void {
  const spent =
    counter.scope === 'label' ? spentUnder(state, counter.subject, start) : spentBelow(state, counter.subject, start);
  Object.assign(counter, { start, end, spent: spent ?? 0, hasUsage: spent !== undefined, left: undefined });
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

function countersAbove(state: SpendState, userPath: string): BudgetCounter[] {
  return pathsAbove(userPath).flatMap((path) => state.bySubject.get(subjectKey('user_path', path)) ?? NONE);
}

function add({ counters, bySubject, chains }: SpendState, counter: BudgetCounter): void {
  const subject = subjectKey(counter.scope, counter.subject);
  counters.set(counter.key, counter);
  bySubject.set(subject, [...(bySubject.get(subject) ?? NONE), counter]);
  chains.clear();
}

function remove({ counters, bySubject, chains }: SpendState, key: string): void {
  const counter = counters.get(key);
  if (counter === undefined) return;
  const subject = subjectKey(counter.scope, counter.subject);
  const others = (bySubject.get(subject) ?? NONE).filter((one) => one !== counter);
  counters.delete(key);
  if (others.length === 0) bySubject.delete(subject);
  else bySubject.set(subject, others);
  chains.clear();
}
