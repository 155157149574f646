/**
 * The figures of a log, counted in plain TypeScript from its events: analytics must have the same, to the last unit.
 */

import type { z } from 'zod';
import {
  requestReceived,
  requestsRefused,
  usageRecalculated,
  usageRecorded,
} from '../../src/events/catalogue/exchange.ts';
import { guardrailApplied, guardrailVerdicts, placeholdersAssigned } from '../../src/events/catalogue/guardrail.ts';
import type { RecordedEvent } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';

export interface Figures {
  readonly events: number;
  readonly bodyBytes: number;
  /** Without the values behind placeholders, which analysts do not get. */
  readonly keptBytes: number;
  readonly byType: Readonly<Record<string, number>>;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly attempts: number;
  readonly failedAttempts: number;
  /** By model: requests, tokens, and nano-dollars as decimal text (null when no request of it has a price). */
  readonly usage: Readonly<Record<string, UsageFigures>>;
  readonly adminChanges: number;
  /** By type, phase, verdict, and whether it decided: `number of runs, edits, findings, nanoseconds`. */
  readonly verdicts: Readonly<Record<string, string>>;
  /** Ended exchanges by the scope and version of their workflow and their strongest verdict: `number, edited, runs`. */
  readonly guarded: Readonly<Record<string, string>>;
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
  let keptBytes = 0;
  const guarding = new Guarding();
  for await (const event of log.readAll()) {
    events += 1;
    bodyBytes += event.body?.length ?? 0;
    if (event.type !== placeholdersAssigned.type) keptBytes += event.body?.length ?? 0;
    guarding.add(event);
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
    keptBytes,
    byType,
    outcomes: ended,
    attempts: byType['attempt.started'] ?? 0,
    failedAttempts: byType['attempt.failed'] ?? 0,
    usage: byModel([...spent.values()]),
    adminChanges: ['key.created', 'key.deactivated', 'workflow.created'].reduce(
      (sum, type) => sum + (byType[type] ?? 0),
      0,
    ),
    verdicts: textsOf(guarding.verdicts),
    guarded: textsOf(guarding.guarded),
  };
}

interface Guarded {
  readonly workflow: string;
  verdict: (typeof guardrailVerdicts)[number] | undefined;
  edited: boolean;
  runs: number;
}

class Guarding {
  readonly verdicts: Record<string, number[]> = {};
  readonly guarded: Record<string, number[]> = {};
  readonly #open = new Map<string, Guarded>();

  add({ type, stream, data }: RecordedEvent): void {
    if (type === requestReceived.type) {
      const { workflow } = requestReceived.data.parse(data);
      const name = workflow === undefined ? '' : `${workflow.scope} ${workflow.version} ${workflow.off ?? ''}`;
      this.#open.set(stream, { workflow: name, verdict: undefined, edited: false, runs: 0 });
    } else if (type === guardrailApplied.type) this.#apply(stream, guardrailApplied.data.parse(data));
    else if (outcomes[type] !== undefined) this.#end(this.#open.get(stream));
    if (type === requestsRefused.type) add(this.guarded, ' ', [requestsRefused.data.parse(data).count, 0, 0]);
  }

  #apply(stream: string, { phase, verdict, decidedBy, edited, runs }: z.infer<typeof guardrailApplied.data>): void {
    let isDecided = false;
    for (const run of runs) {
      const decides: boolean = !isDecided && run.guardrail === decidedBy && run.verdict === verdict;
      isDecided ||= decides;
      const found = Object.values(run.findings ?? {}).reduce((sum, one) => sum + one, 0);
      const name = `${run.type} ${phase} ${run.verdict} ${Number(decides)}`;
      add(this.verdicts, name, [1, Number(run.edited), found, run.durationNs]);
    }
    const one = this.#open.get(stream);
    if (one === undefined) return;
    const rank = (of: Guarded['verdict']) => (of === undefined ? -1 : guardrailVerdicts.indexOf(of));
    if (rank(verdict) > rank(one.verdict)) one.verdict = verdict;
    one.edited ||= edited;
    one.runs += runs.length;
  }

  #end(one: Guarded | undefined): void {
    if (one === undefined) return;
    add(this.guarded, `${one.workflow} ${one.verdict ?? ''}`, [1, Number(one.edited), one.runs]);
  }
}

function add(sums: Record<string, number[]>, name: string, more: readonly number[]): void {
  sums[name] = more.map((one, index) => one + (sums[name]?.[index] ?? 0));
}

function textsOf(sums: Readonly<Record<string, readonly number[]>>): Record<string, string> {
  return Object.fromEntries(Object.entries(sums).map(([name, numbers]) => [name, numbers.join(' ')]));
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
