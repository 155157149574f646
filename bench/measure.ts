/** Measures one piece of work on all servers, in short rounds that take turns, so that drift of the machine cancels. */
import type { LoadResult } from './load.ts';
import type { LoadProcess } from './load-process.ts';
import { processorMs } from './process-stat.ts';
import type { Server } from './servers.ts';
import { loadFor, PACED, SUBJECTS, type Subject, type Work } from './work.ts';

export interface Measured {
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** To the first data of a stream; null for JSON. */
  readonly firstP50: number | null;
  readonly firstP99: number | null;
}

export interface Cell {
  readonly work: string;
  readonly describe: string;
  readonly stream: boolean;
  readonly connections: number;
  /** The median of each figure over all rounds. */
  readonly measured: Readonly<Record<Subject, Measured>>;
  /** Processor time of the server's process and its children per answer, over the whole cell, in milliseconds. */
  readonly processorMs: Readonly<Record<Subject, number>>;
  /**
   * The gateway's rate against the bare pass-through's: the median over rounds of the ratio within a round. Null for
   * paced streams, whose rate the pace decides.
   */
  readonly ratio: number | null;
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
  servers: Readonly<Record<Subject, Server>>,
  load: LoadProcess,
  { rounds, seconds }: Rounds,
): Promise<Cell> {
  const failures: Record<string, number> = {};
  const results: Record<Subject, Measured[]> = { provider: [], bare: [], gateway: [] };

  const totals: Record<Subject, number> = { provider: 0, bare: 0, gateway: 0 };
  const before = perSubject((subject) => processorMs(servers[subject].pid));

  async function once(subject: Subject, counted: number): Promise<Measured> {
    const end = servers[subject].end();
    if (end !== undefined) throw new Error(`the ${subject} server ended in the middle of the benchmark, by ${end}`);
    const ask = loadFor(work, subject, servers[subject]);
    const result = await load.run({ ...ask, connections, seconds: counted, warmUpSeconds: LEAD_IN_SECONDS });
    for (const [what, count] of Object.entries(result.failures)) {
      failures[`${subject}: ${what}`] = (failures[`${subject}: ${what}`] ?? 0) + count;
    }
    totals[subject] += result.total;
    return measuredOf(result);
  }

  for (const subject of SUBJECTS) await once(subject, WARM_UP_SECONDS);
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < SUBJECTS.length; turn++) {
      const subject = SUBJECTS[(round + turn) % SUBJECTS.length] ?? 'gateway';
      results[subject].push(await once(subject, seconds));
    }
  }

  const paired = (difference: (gateway: Measured, bare: Measured) => number) =>
    median(
      results.gateway.flatMap((gateway, round) =>
        results.bare[round] ? [difference(gateway, results.bare[round])] : [],
      ),
    );
  return {
    work: work.name,
    describe: work.describe,
    stream: work.stream,
    connections,
    measured: perSubject((subject) => medians(results[subject])),
    processorMs: perSubject(
      (subject) => (processorMs(servers[subject].pid) - before[subject]) / Math.max(1, totals[subject]),
    ),
    ratio: work.model === PACED ? null : paired((gateway, bare) => gateway.perSecond / bare.perSecond),
    addedP50: paired((gateway, bare) => gateway.p50 - bare.p50),
    addedFirstP50: work.stream ? paired((gateway, bare) => (gateway.firstP50 ?? 0) - (bare.firstP50 ?? 0)) : null,
    failures,
  };
}

function perSubject<T>(figure: (subject: Subject) => T): Record<Subject, T> {
  return { provider: figure('provider'), bare: figure('bare'), gateway: figure('gateway') };
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
