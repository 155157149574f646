/** Measures one piece of work on all servers, in short rounds that take turns, so that drift of the machine cancels. */
import type { LoadResult } from './load.ts';
import type { LoadProcess } from './load-process.ts';
import { processorMs } from './process-stat.ts';
import { type Asked, loadFor, PACED, type Subject, subjectsOf, type Work } from './work.ts';

export interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** To the first data of a stream; null for JSON. */
  readonly firstP50: number | null;
  readonly firstP99: number | null;
}

/** `governed` only for the works that are asked that way. */
export type PerSubject<T> = Readonly<Record<'provider' | 'bare' | 'gateway', T>> & { readonly governed?: T };

export interface Cell {
  readonly work: string;
  readonly describe: string;
  readonly stream: boolean;
  readonly connections: number;
  /** The median of each figure over all rounds. */
  readonly measured: PerSubject<Measured>;
  /** Processor time of the server's process and its children per answer, over all rounds, in milliseconds. */
  readonly processorMs: PerSubject<number>;
  /**
   * The gateway's rate against the bare pass-through's: the median over rounds of the ratio within a round. Null for
   * paced streams, whose rate the pace decides.
   */
  readonly ratio: number | null;
  /** The rate under a key with a budget and limits against the gateway's own, made in the same way. */
  readonly governedRatio: number | null;
  /** What the gateway adds to the bare pass-through's median latency; the median over rounds. */
  readonly addedP50: number;
  readonly addedFirstP50: number | null;
  /** `subject: what went wrong`, and how often. */
  readonly failures: Readonly<Record<string, number>>;
}

export interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
}

const LEAD_IN_SECONDS = 0.2;
const WARM_UP_SECONDS = 0.5;

export async function measureCell(
  work: Work,
  connections: number,
  asked: Readonly<Record<Subject, Asked>>,
  load: LoadProcess,
  { rounds, seconds }: Rounds,
): Promise<Cell> {
  const subjects = subjectsOf(work);
  const failures: Record<string, number> = {};
  const results: Record<Subject, Measured[]> = { provider: [], bare: [], gateway: [], governed: [] };
  const totals: Record<Subject, number> = { provider: 0, bare: 0, gateway: 0, governed: 0 };
  const spent: Record<Subject, number> = { provider: 0, bare: 0, gateway: 0, governed: 0 };

  async function once(subject: Subject, counted: number): Promise<Measured> {
    const { server } = asked[subject];
    const end = server.end();
    if (end !== undefined) throw new Error(`the ${subject} server ended in the middle of the benchmark, by ${end}`);
    const before = processorMs(server.pid);
    const ask = loadFor(work, subject, asked[subject]);
    const result = await load.run({ ...ask, connections, seconds: counted, warmUpSeconds: LEAD_IN_SECONDS });
    for (const [what, count] of Object.entries(result.failures)) {
      failures[`${subject}: ${what}`] = (failures[`${subject}: ${what}`] ?? 0) + count;
    }
    totals[subject] += result.total;
    spent[subject] += processorMs(server.pid) - before;
    return measuredOf(result);
  }

  for (const subject of subjects) await once(subject, WARM_UP_SECONDS);
  for (let round = 0; round < rounds; round++) {
    // Backwards every other time: nobody always comes after one that leaves work behind.
    const order = subjects.map((_, turn) => subjects[(round + turn) % subjects.length] ?? 'gateway');
    for (const subject of round % 2 === 0 ? order : order.toReversed()) {
      results[subject].push(await once(subject, seconds));
    }
  }

  const paired = (one: Subject, other: Subject, compare: (one: Measured, other: Measured) => number) =>
    median(
      results[one].flatMap((figures, round) => {
        const others = results[other][round];
        return others === undefined ? [] : [compare(figures, others)];
      }),
    );
  const perSubject = <T>(figure: (subject: Subject) => T): PerSubject<T> => ({
    provider: figure('provider'),
    bare: figure('bare'),
    gateway: figure('gateway'),
    ...(work.governed ? { governed: figure('governed') } : {}),
  });
  const rate = (one: Measured, other: Measured) => one.perSecond / other.perSecond;
  return {
    work: work.name,
    describe: work.describe,
    stream: work.stream,
    connections,
    measured: perSubject((subject) => medians(results[subject])),
    processorMs: perSubject((subject) => spent[subject] / Math.max(1, totals[subject])),
    ratio: work.model === PACED ? null : paired('gateway', 'bare', rate),
    governedRatio: work.governed ? paired('governed', 'gateway', rate) : null,
    addedP50: paired('gateway', 'bare', (gateway, bare) => gateway.p50 - bare.p50),
    addedFirstP50: work.stream
      ? paired('gateway', 'bare', (gateway, bare) => (gateway.firstP50 ?? 0) - (bare.firstP50 ?? 0))
      : null,
    failures,
  };
}

function measuredOf(result: LoadResult): Measured {
  return {
    perSecond: result.perSecond,
    p50: result.latencyMs.p50,
    p99: result.latencyMs.p99,
    firstP50: result.firstDataMs?.p50 ?? null,
    firstP99: result.firstDataMs?.p99 ?? null,
  };
}

function medians(rounds: readonly Measured[]): Measured {
  const of = (figure: (round: Measured) => number | null) => {
    const values = rounds.flatMap((round) => figure(round) ?? []);
    return values.length === 0 ? null : median(values);
  };
  return {
    perSecond: of((round) => round.perSecond) ?? 0,
    p50: of((round) => round.p50) ?? 0,
    p99: of((round) => round.p99) ?? 0,
    firstP50: of((round) => round.firstP50),
    firstP99: of((round) => round.firstP99),
  };
}

/** 0 for no values. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((left, right) => left - right);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}
