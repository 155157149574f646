/**
 * The figures of a log, counted in plain TypeScript from its events: analytics must have the same, to the last unit.
 */
import { requestsRefused, usageRecalculated, usageRecorded } from '../../src/events/catalogue/exchange.ts';
import type { EventLog } from '../../src/events/log.ts';

export interface Figures {
  readonly events: number;
  readonly bodyBytes: number;
  readonly byType: Readonly<Record<string, number>>;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly attempts: number;
  readonly failedAttempts: number;
  /** By model: requests, tokens, and nano-dollars as decimal text (null when no request of it has a price). */
  readonly usage: Readonly<Record<string, UsageFigures>>;
  readonly adminChanges: number;
}

export interface UsageFigures {
  readonly requests: number;
  readonly input: number;
  readonly output: number;
  readonly cached: number;
  readonly inputCost: string | null;
  readonly outputCost: string | null;
  readonly totalCost: string | null;
}

interface Spent {
  readonly model: string;
  /** Spent on an attempt that failed: it is no request of its own. */
  readonly isFailed: boolean;
  readonly tokens: readonly [number, number, number];
  costs: readonly (bigint | null)[];
}

const outcomes: Readonly<Record<string, string>> = {
  'exchange.completed': 'completed',
  'exchange.failed': 'failed',
  'request.refused': 'refused',
  'client.disconnected': 'disconnected',
};

export async function figuresOfLog(log: EventLog): Promise<Figures> {
  const byType: Record<string, number> = {};
  const ended: Record<string, number> = {};
  const spent = new Map<string, Spent>();
  let events = 0;
  let bodyBytes = 0;
  for await (const event of log.readAll()) {
    events += 1;
    bodyBytes += event.body?.length ?? 0;
    byType[event.type] = (byType[event.type] ?? 0) + 1;
    const outcome = outcomes[event.type];
    if (outcome !== undefined) ended[outcome] = (ended[outcome] ?? 0) + 1;
    if (event.type === requestsRefused.type) {
      ended['refused'] = (ended['refused'] ?? 0) + requestsRefused.data.parse(event.data).count;
    }
    if (event.type === usageRecorded.type) {
      const data = usageRecorded.data.parse(event.data);
      const tokens = [data.inputTokens ?? 0, data.outputTokens ?? 0, data.cachedInputTokens ?? 0] as const;
      spent.set(event.id, {
        model: data.model,
        isFailed: data.failedAttempt !== undefined,
        tokens,
        costs: costsOf(data),
      });
    } else if (event.type === usageRecalculated.type) {
      const data = usageRecalculated.data.parse(event.data);
      const one = spent.get(data.usageId);
      if (one !== undefined) one.costs = costsOf(data);
    }
  }
  return {
    events,
    bodyBytes,
    byType,
    outcomes: ended,
    attempts: byType['attempt.started'] ?? 0,
    failedAttempts: byType['attempt.failed'] ?? 0,
    usage: byModel([...spent.values()]),
    adminChanges: ['key.created', 'key.deactivated', 'workflow.created'].reduce(
      (sum, type) => sum + (byType[type] ?? 0),
      0,
    ),
  };
}

function costsOf(data: { inputCost: string | null; outputCost: string | null; totalCost: string | null }) {
  return [data.inputCost, data.outputCost, data.totalCost].map((cost) => (cost === null ? null : BigInt(cost)));
}

function byModel(spent: readonly Spent[]): Record<string, UsageFigures> {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
  const cost = (of: readonly Spent[], which: number) => {
    const known = of.flatMap(({ costs }) => costs[which] ?? []);
    return known.length === 0 ? null : String(known.reduce((total, one) => total + one, 0n));
  };
  return Object.fromEntries(
    [...Map.groupBy(spent, ({ model }) => model)].map(([model, of]) => [
      model,
      {
        requests: of.filter(({ isFailed }) => !isFailed).length,
        input: sum(of.map(({ tokens }) => tokens[0])),
        output: sum(of.map(({ tokens }) => tokens[1])),
        cached: sum(of.map(({ tokens }) => tokens[2])),
        inputCost: cost(of, 0),
        outputCost: cost(of, 1),
        totalCost: cost(of, 2),
      },
    ]),
  );
}
