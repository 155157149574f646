/** One piece of work on all servers, in short alternating rounds, so that drift of the machine cancels. */
import { SLOW_FLUSH_MS } from '../servers/disk.ts';
import type { Disturbance } from '../servers/disturbance.ts';
import type { Subject } from '../servers/subject.ts';
import type { Work } from '../work.ts';
import { type Interval, median, medianInterval } from './median.ts';
import { type Round, runRound, type Stand, turns } from './round.ts';

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
   * and the mean of its work after the last answer of a round until it was idle.
   */
  readonly cpuMicros: number;
  /** The second part of it. */
  readonly afterMicros: number;
  /** Of a flush of the disk during a round, in milliseconds; null for a server that flushes nothing. */
  readonly flushMs: number | null;
  /** Peak growth of the resident memory under the load for each connection, in KiB. */
  readonly connectionKb: number;
  /** The rate against that of `bare` in the same round: the median over rounds. Null without `bare`. */
  readonly ofBare: number | null;
  /** The 99th percentile and the processor time against those of `bare`, in the same way. */
  readonly p99OfBare: number | null;
  readonly cpuOfBare: number | null;
  /**
   * Of another checkout of the gateway: its processor time against that of this checkout in the same round, the median
   * over rounds with its 95 % confidence interval. Null for every other server.
   */
  readonly cpuOfThis: Interval | null;
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
  /** Servers that did not become idle after a round. */
  readonly restless: readonly string[];
  /** The worst round: share of the servers' processors that others used during it. */
  readonly disturbance: Disturbance;
}

export interface Rounds {
  readonly rounds: number;
  readonly seconds: number;
  /** Whether a disturbed round is measured once more; the less disturbed of the two then counts. */
  readonly repeatsDisturbed?: boolean;
}

const WARM_UP_CONNECTIONS = 50;
/** Share of the server's processor that others may use in a round. */
const DISTURBED = 0.03;

/** 1 is the limit. */
const disturbed = ({ disturbance: { stolen, others }, flushMs }: Round) =>
  Math.max((stolen + others) / DISTURBED, (flushMs ?? 0) / SLOW_FLUSH_MS);

/** Nothing of it is counted. */
export async function warmUp(stand: Stand, work: Work, subjects: readonly Subject[], seconds: number): Promise<void> {
  if (seconds === 0) return;
  for (const subject of subjects) {
    if (subject.kind !== 'direct') await runRound(stand, subject, work, { connections: WARM_UP_CONNECTIONS, seconds });
  }
}

export async function measureCell(
  stand: Stand,
  work: Work,
  connections: number,
  subjects: readonly Subject[],
  { rounds, seconds, repeatsDisturbed = false }: Rounds,
): Promise<Cell> {
  const failures: Record<string, number> = {};
  const restless = new Set<string>();
  const all = new Map<string, Round[]>(subjects.map(({ name }) => [name, []]));
  const { rampSeconds, leadInSeconds = rampSeconds, leastSeconds = 0 } = work;

  async function once(subject: Subject, counted: number): Promise<Round> {
    const lead = leadInSeconds === undefined ? {} : { rampSeconds, warmUpSeconds: leadInSeconds };
    const round = await runRound(stand, subject, work, { connections, seconds: counted, ...lead });
    for (const [what, count] of Object.entries(round.result.failures)) {
      failures[`${subject.name}: ${what}`] = (failures[`${subject.name}: ${what}`] ?? 0) + count;
    }
    if (!round.rested) restless.add(subject.name);
    return round;
  }

  for (let round = 0; round < rounds; round++) {
    for (const subject of turns(subjects, round)) {
      const counted = Math.max(seconds, leastSeconds);
      const first = await once(subject, counted);
      const second = repeatsDisturbed && disturbed(first) > 1 ? await once(subject, counted) : first;
      all.get(subject.name)?.push(disturbed(second) < disturbed(first) ? second : first);
    }
  }
  const bare = all.get('bare');
  const servers = [...all].map(([name, own]) => [
    name,
    {
      ...measuredOf(own, name === 'bare' || name === 'direct' ? undefined : bare, connections),
      cpuOfThis: name.startsWith('gateway@') ? cpuAgainst(own, all.get('gateway')) : null,
    },
  ]);
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

function cpuAgainst(rounds: readonly Round[], others: readonly Round[] | undefined): Interval | null {
  const ratios = rounds.flatMap((round, at) => {
    const other = others?.[at];
    return other === undefined ? [] : [round.spentMicros / other.spentMicros];
  });
  return ratios.length === 0 ? null : medianInterval(ratios);
}

const medianOrNull = (values: readonly number[]) => (values.length === 0 ? null : median(values));

function measuredOf(
  rounds: readonly Round[],
  bare: readonly Round[] | undefined,
  connections: number,
): Omit<Measured, 'cpuOfThis'> {
  const of = (figure: (result: Round['result']) => number | undefined) => {
    return medianOrNull(rounds.flatMap(({ result }) => figure(result) ?? []));
  };
  const against = (figure: (round: Round) => number) =>
    bare === undefined
      ? null
      : median(rounds.flatMap((round, at) => (bare[at] === undefined ? [] : [figure(round) / figure(bare[at])])));
  const answers = rounds.reduce((sum, { result }) => sum + result.total, 0);
  // Deferred work is not done in every round, so its mean counts.
  const afterMicros = (rounds.reduce((sum, { afterMs }) => sum + afterMs, 0) * 1000) / Math.max(1, answers);
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
    flushMs: medianOrNull(rounds.flatMap(({ flushMs }) => flushMs ?? [])),
    connectionKb: (median(rounds.map(({ peakMb, beforeMb }) => peakMb - beforeMb)) * 1024) / connections,
    ofBare: against(({ result }) => result.perSecond),
    p99OfBare: against(({ result }) => result.latencyMs.p99),
    cpuOfBare: against(({ spentMicros }) => spentMicros),
  };
}
