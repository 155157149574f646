/** Events of spending and of budgets at chosen times, without a log. */

import { unknownUsage } from '../../src/commands/model-request/usage.ts';
import { budgetRemoved, budgetReset, budgetSet, budgetSettingsChanged } from '../../src/events/catalogue/budget.ts';
import { usageRecalculated, usageRecorded } from '../../src/events/catalogue/exchange.ts';
import {
  type EventContext,
  type NewEvent,
  type Position,
  type RecordedEvent,
  streamName,
  type UserPath,
} from '../../src/events/event.ts';
import { defaultAnchors, type PeriodAnchors } from '../../src/projections/budgets.ts';

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;
/** A Monday, and the second of a month. */
export const MONDAY = Date.parse('2026-02-02T00:00:00Z');

const spentOn = { provider: 'local', providerType: 'llamacpp', model: 'tiny', endpoint: '/v1/chat/completions' };
const master: EventContext = { actor: 'master' };

let count = 0;

export function at(ms: number, event: NewEvent, stream = 'budget-x'): RecordedEvent {
  count += 1;
  return {
    ...event,
    id: String(count),
    stream: stream as RecordedEvent['stream'],
    revision: 0n,
    position: String(count).padStart(16, '0') as Position,
    at: ms,
  };
}

export interface Spending {
  /** Nano-dollars; null: not known. */
  readonly cost: number | null;
  readonly userPath?: string | undefined;
  readonly labels?: readonly string[] | undefined;
  readonly cached?: boolean;
  readonly exchange?: string;
}

export function used(ms: number, { cost, userPath, labels, cached = false, exchange = 'e' }: Spending): RecordedEvent {
  const totalCost = cost === null ? null : String(cost);
  const data = {
    ...spentOn,
    ...unknownUsage,
    labels,
    inputCost: null,
    outputCost: null,
    totalCost,
    ...(cached ? { cacheType: 'exact' as const, totalCost: '0', savedCost: totalCost } : {}),
  };
  const event = usageRecorded.create(data, { ...master, userPath: userPath as UserPath | undefined });
  return at(ms, event, streamName('exchange', exchange));
}

export function corrected(
  ms: number,
  { usedAt, from, to, userPath }: { usedAt: number; from: number | null; to: number | null; userPath?: string },
): RecordedEvent {
  const text = (cost: number | null) => (cost === null ? null : String(cost));
  const event = usageRecalculated.create(
    {
      ...spentOn,
      usageId: 'u',
      usageAt: usedAt,
      inputCost: null,
      outputCost: null,
      totalCost: text(to),
      previousTotalCost: text(from),
    },
    { ...master, userPath: userPath as UserPath | undefined },
  );
  return at(ms, event, 'exchange-e');
}

interface Which {
  readonly subject?: string;
  readonly scope?: 'user_path' | 'label';
  readonly periodSeconds?: number;
}

const named = ({ subject = '/', scope = 'user_path', periodSeconds = 86_400 }: Which) => ({
  scope,
  subject,
  periodSeconds,
});

export function budget(ms: number, amount: number, which: Which = {}): RecordedEvent {
  return at(ms, budgetSet.create({ ...named(which), amount: String(amount), source: 'manual' }, master));
}

export function budgetGone(ms: number, which: Which = {}): RecordedEvent {
  return at(ms, budgetRemoved.create(named(which), master));
}

export function forgiven(ms: number, which: Which = {}): RecordedEvent {
  return at(ms, budgetReset.create(named(which), master));
}

export function anchored(ms: number, anchors: Partial<PeriodAnchors>): RecordedEvent {
  return at(ms, budgetSettingsChanged.create({ ...defaultAnchors, ...anchors }, master));
}
