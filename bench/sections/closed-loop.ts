/** One piece of work on all servers, in short rounds that take turns, so that drift of the machine cancels. */
import type { Disturbance } from '../servers/disturbance.ts';
import type { Subject } from '../servers/subject.ts';
import type { Work } from '../work.ts';
import { median } from './median.ts';
import { type Round, type RoundLoad, runRound, type Stand } from './round.ts';

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
   * Processor time of the server with its threads and children for an exchange, in microseconds: the median over rounds,
   * and the mean of what it did after the last answer of a round until it was idle.
   */
  readonly cpuMicros: number;
  /** The second part of it. */
  readonly afterMicros: number;
  /** The rate of the first server named `bare` in the same round, against this one's: the median over rounds. */
  readonly ofBare: number | null;
  /** The 99th percentile and the processor time against those of `bare`, in the same way. */
  readonly p99OfBare: number | null;
  readonly cpuOfBare: number | null;
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
  /** The worst round: what others took of the server's processors while it was measured. */
  readonly disturbance: Disturbance;
}

export interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
  /** Not counted, before the first round of each server. */
  readonly warmUpSeconds: number;
}

export async function measureCell(
  stand: Stand,
  work: Work,
  connections: number,
  subjects: readonly Subject[],
  { rounds, seconds, warmUpSeconds, ...how }: Rounds & Pick<RoundLoad, 'rampSeconds'>,
): Promise<Cell> {
  const failures: Record<string, number> = {};
  const restless = new Set<string>();
  const all = new Map<string, Round[]>(subjects.map(({ name }) => [name, []]));

  async function once(subject: Subject, counted: number): Promise<Round> {
    const load = { connections, seconds: counted, warmUpSeconds: how.rampSeconds, rampSeconds: how.rampSeconds };
    const round = await runRound(stand, subject, work, load);
    for (const [what, count] of Object.entries(round.result.failures)) {
      failures[`${subject.name}: ${what}`] = (failures[`${subject.name}: ${what}`] ?? 0) + count;
    }
    if (!round.rested) restless.add(subject.name);
    return round;
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
    disturbance: worst([...all.values()].flat().map((round) => round.disturbance)),
  };
}

function worst(rounds: readonly Disturbance[]): Disturbance {
  return {
    stolen: Math.max(0, ...rounds.map(({ stolen }) => stolen)),
    others: Math.max(0, ...rounds.map(({ others }) => others)),
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
  const of = (figure: (result: Round['result']) => number | undefined) => {
    const values = results.flatMap((result) => figure(result) ?? []);
    return values.length === 0 ? null : median(values);
  };
  const against = (figure: (round: Round) => number) =>
    bare === undefined
      ? null
      : median(rounds.flatMap((round, at) => (bare[at] === undefined ? [] : [figure(round) / figure(bare[at])])));
  const answers = Math.max(
    1,
    results.reduce((sum, { total }) => sum + total, 0),
  );
  // What is put off is not done in every round, so its mean counts.
  const afterMicros = (rounds.reduce((sum, { afterMs }) => sum + afterMs, 0) * 1000) / answers;
  return {
    perSecond: of(({ perSecond }) => perSecond) ?? 0,
    p50: of(({ latencyMs }) => latencyMs.p50) ?? 0,
    p99: of(({ latencyMs }) => latencyMs.p99) ?? 0,
    firstP50: of(({ firstDataMs }) => firstDataMs?.p50),
    firstP99: of(({ firstDataMs }) => firstDataMs?.p99),
    wordP50: of(({ wordMs }) => wordMs?.p50),
    wordP99: of(({ wordMs }) => wordMs?.p99),
    cpuMicros: median(rounds.map(({ spentMicros }) => spentMicros)) + afterMicros,
    afterMicros,
    ofBare: against(({ result }) => result.perSecond),
    p99OfBare: against(({ result }) => result.latencyMs.p99),
    cpuOfBare: against(({ spentMicros }) => spentMicros),
  };
}
