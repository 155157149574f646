/** One piece of work on all servers, in short rounds that take turns, so that drift of the machine cancels. */
import type { Load, LoadResult } from '../load/load.ts';
import type { LoadProcess } from '../load/load-process.ts';
import { processorMs } from '../servers/process-stat.ts';
import type { Subject } from '../servers/subject.ts';
import { requestFor, type Work } from '../work.ts';
import { median } from './median.ts';

export interface Measured {
  /** The median of each figure over all rounds. */
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
  /** To the first data of a stream; null for JSON. */
  readonly firstP50: number | null;
  readonly firstP99: number | null;
  /** From the upstream's write of a word to its arrival; null unless the stream is stamped. */
  readonly wordP50: number | null;
  readonly wordP99: number | null;
  /**
   * Processor time of the server with its threads and children for an exchange, in microseconds, over all rounds: with
   * what it did afterwards until it was idle.
   */
  readonly cpuMicros: number;
  /** The part of it that was spent after the last answer of a round. */
  readonly afterMicros: number;
  /** The rate of the first server named `bare` in the same round, against this one's: the median over rounds. */
  readonly ofBare: number | null;
  /** The 99th percentile against that of `bare`, in the same way. */
  readonly p99OfBare: number | null;
}

export interface Cell {
  readonly work: string;
  readonly describe: string;
  readonly stream: boolean;
  readonly connections: number;
  /** By the server's name, in the order of the table. */
  readonly servers: Readonly<Record<string, Measured>>;
  /** `server: what went wrong`, and how often. */
  readonly failures: Readonly<Record<string, number>>;
  /** Servers that did not come to rest before a round. */
  readonly restless: readonly string[];
}

export interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
  /** Not counted, before the first round of each server. */
  readonly warmUpSeconds: number;
}

const LEAD_IN_SECONDS = 0.2;

interface Round {
  readonly result: LoadResult;
  readonly spentMs: number;
  readonly afterMs: number;
}

export async function measureCell(
  work: Work,
  connections: number,
  subjects: readonly Subject[],
  load: LoadProcess,
  { rounds, seconds, warmUpSeconds, ...more }: Rounds & Pick<Load, 'rampSeconds'>,
): Promise<Cell> {
  const failures: Record<string, number> = {};
  const restless = new Set<string>();
  const all = new Map<string, Round[]>(subjects.map(({ name }) => [name, []]));

  async function once(subject: Subject, counted: number): Promise<Round> {
    const server = subject.process(work.upstream);
    const end = server.end();
    if (end !== undefined)
      throw new Error(`the ${subject.name} server ended in the middle of the benchmark, by ${end}`);
    const before = processorMs(server.pid);
    const request = requestFor(work, subject.asked(work.upstream));
    const leadIn = Math.max(LEAD_IN_SECONDS, more.rampSeconds ?? 0);
    const result = await load.run({ ...request, ...more, connections, seconds: counted, warmUpSeconds: leadIn });
    const answered = processorMs(server.pid);
    for (const [what, count] of Object.entries(result.failures)) {
      failures[`${subject.name}: ${what}`] = (failures[`${subject.name}: ${what}`] ?? 0) + count;
    }
    if (!(await subject.rest())) restless.add(subject.name);
    return { result, spentMs: answered - before, afterMs: processorMs(server.pid) - answered };
  }

  if (warmUpSeconds > 0) for (const subject of subjects) await once(subject, warmUpSeconds);
  for (let round = 0; round < rounds; round++) {
    for (const subject of turns(subjects, round)) all.get(subject.name)?.push(await once(subject, seconds));
  }
  const bare = all.get('bare');
  const servers = [...all].map(([name, own]) => [name, measuredOf(own, name === 'bare' ? undefined : bare)]);
  return {
    work: work.name,
    describe: work.describe,
    stream: work.stream,
    connections,
    servers: Object.fromEntries(servers),
    failures,
    restless: [...restless],
  };
}

/** Each round begins with another one, and every other round runs backwards: none always follows the same one. */
export function turns<T>(all: readonly T[], round: number): readonly T[] {
  const from = round % Math.max(1, all.length);
  const order = [...all.slice(from), ...all.slice(0, from)];
  return round % 2 === 0 ? order : order.toReversed();
}

function measuredOf(rounds: readonly Round[], bare: readonly Round[] | undefined): Measured {
  const results = rounds.map(({ result }) => result);
  const of = (figure: (result: LoadResult) => number | undefined) => {
    const values = results.flatMap((result) => figure(result) ?? []);
    return values.length === 0 ? null : median(values);
  };
  const against = (figure: (result: LoadResult) => number) =>
    bare === undefined
      ? null
      : median(
          results.flatMap((result, round) => {
            const yardstick = bare[round]?.result;
            return yardstick === undefined ? [] : [figure(result) / figure(yardstick)];
          }),
        );
  const answers = Math.max(
    1,
    results.reduce((sum, { total }) => sum + total, 0),
  );
  const micros = (figure: (round: Round) => number) =>
    (rounds.reduce((sum, round) => sum + figure(round), 0) * 1000) / answers;
  return {
    perSecond: of(({ perSecond }) => perSecond) ?? 0,
    p50: of(({ latencyMs }) => latencyMs.p50) ?? 0,
    p99: of(({ latencyMs }) => latencyMs.p99) ?? 0,
    firstP50: of(({ firstDataMs }) => firstDataMs?.p50),
    firstP99: of(({ firstDataMs }) => firstDataMs?.p99),
    wordP50: of(({ wordMs }) => wordMs?.p50),
    wordP99: of(({ wordMs }) => wordMs?.p99),
    cpuMicros: micros(({ spentMs, afterMs }) => spentMs + afterMs),
    afterMicros: micros(({ afterMs }) => afterMs),
    ofBare: against(({ perSecond }) => perSecond),
    p99OfBare: against(({ latencyMs }) => latencyMs.p99),
  };
}
