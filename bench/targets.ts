/** The targets of the benchmark, checked against its figures. */
import type { Results } from './benchmark.ts';
import type { Cell, Measured } from './sections/closed-loop.ts';
import { WORDS } from './upstream/canned.ts';

export interface Verdict {
  readonly what: string;
  /** `–` when it only has to be measured. */
  readonly required: string;
  /** Of later work. */
  readonly goal: string;
  readonly measured: string;
  readonly verdict: 'goal reached' | 'reached' | 'NOT reached' | 'measured' | 'not measured';
}

interface Target {
  readonly what: string;
  readonly measured: number | undefined;
  /** Whether more is better. */
  readonly atLeast?: boolean;
  /** Null when it only has to be measured. */
  readonly required: number | null;
  readonly goal: number | null;
  readonly show: (value: number) => string;
}

const times = (value: number) => `${value.toFixed(2)} ×`;
const share = (value: number) => value.toFixed(2);
const micros = (value: number) => `${Math.round(value).toLocaleString('en')} µs`;
const ms = (value: number) => `${value.toFixed(value < 10 ? 2 : 0)} ms`;
const perSecond = (value: number) => `${Math.round(value).toLocaleString('en')}/s`;
const mb = (value: number) => `${value.toFixed(0)} MB`;

/** Events of a streamed answer with a text. */
const CHUNKS = WORDS + 1;

export function judge(results: Results): Verdict[] {
  return [...throughput(results), ...latency(results), ...log(results), ...starts(results), failures(results)].map(
    verdictOf,
  );
}

function throughput({ cells, sustained, memory }: Results): Target[] {
  const gateway = (work: string, connections = 50) => measuredBy(cells, work, connections, 'gateway');
  const rates = (work: string, one: string, other: string) =>
    between(measuredBy(cells, work, 50, one), measuredBy(cells, work, 50, other), (a, b) => a.perSecond / b.perSecond);
  const kinds = [
    { work: 'chat-json', name: 'chat JSON', rate: [0.45, 0.6], cpu: [150, 110], p99: [2.4, 1.5] },
    { work: 'chat-sse', name: 'chat SSE', rate: [0.33, 0.45], cpu: [240, 190], p99: [4, 2] },
  ] as const;
  return [
    ...kinds.flatMap(({ work, name, rate, cpu, p99 }): Target[] => [
      {
        what: `${name}, 50 connections: rate, of bare`,
        measured: gateway(work)?.ofBare ?? undefined,
        atLeast: true,
        required: rate[0],
        goal: rate[1],
        show: share,
      },
      {
        what: `processor time per exchange, ${name}`,
        measured: gateway(work)?.cpuMicros,
        required: cpu[0],
        goal: cpu[1],
        show: micros,
      },
      {
        what: `${name}, 50 connections: p99, relative to bare`,
        measured: gateway(work)?.p99OfBare ?? undefined,
        required: p99[0],
        goal: p99[1],
        show: times,
      },
      {
        what: `as shipped, ${name}: rate, of analytics off on the same core`,
        measured: rates(work, 'shipped', 'gateway'),
        atLeast: true,
        required: 0.9,
        goal: 0.95,
        show: share,
      },
      {
        what: `managed key, budget and limits, ${name}: rate, of the gateway without`,
        measured: rates(work, 'governed', 'gateway'),
        atLeast: true,
        required: 0.93,
        goal: 0.97,
        show: share,
      },
    ]),
    {
      what: 'chat JSON, 10 connections: rate, of bare',
      measured: gateway('chat-json', 10)?.ofBare ?? undefined,
      atLeast: true,
      required: 0.42,
      goal: 0.6,
      show: share,
    },
    {
      what: 'three guardrails, chat SSE: processor time per chunk, above the gateway without',
      measured: between(
        measuredBy(cells, 'chat-sse', 50, 'guarded'),
        gateway('chat-sse'),
        (guarded, plain) => (guarded.cpuMicros - plain.cpuMicros) / CHUNKS,
      ),
      required: 60,
      goal: null,
      show: micros,
    },
    {
      what: 'hits of the response cache, chat JSON, 50 connections: rate, of the gateway without',
      measured: rates('chat-json', 'cached', 'gateway'),
      atLeast: true,
      required: 2,
      goal: null,
      show: times,
    },
    {
      what: 'hits of the response cache, chat SSE, 50 connections: rate, of the gateway without',
      measured: rates('chat-sse', 'cached', 'gateway'),
      atLeast: true,
      required: 2,
      goal: null,
      show: times,
    },
    {
      what: 'hits of the response cache, chat JSON, 1 connection: median',
      measured: measuredBy(cells, 'chat-json', 1, 'cached')?.p50,
      required: 1,
      goal: null,
      show: ms,
    },
    {
      what: 'sustained rate with an upstream of 20 ms, 1 core',
      measured: sustained.find(({ server }) => server === 'gateway')?.perSecond,
      atLeast: true,
      required: null,
      goal: 6000,
      show: perSecond,
    },
    ...memoryTargets(memory),
    {
      what: 'memory for each of 2,000 paced streams',
      measured: gateway('chat-paced', 2000)?.connectionKb,
      required: 40,
      goal: 25,
      show: (value) => `${value.toFixed(0)} KB`,
    },
  ];
}

/** Of the gateway, and of the gateway with analytics and its processes. */
function memoryTargets(memory: Results['memory']): Target[] {
  const limits = [
    { server: 'gateway', name: 'gateway', idle: [110, 90], peak: [250, 180] },
    { server: 'shipped', name: 'gateway with analytics', idle: [320, 250], peak: [600, 450] },
  ] as const;
  return limits.flatMap(({ server, name, idle, peak }): Target[] => {
    const processes = memory.filter((each) => each.server === server);
    const sum = (figure: 'idleMb' | 'peakMb') =>
      processes.length === 0 ? undefined : processes.reduce((total, each) => total + each[figure], 0);
    return [
      { what: `idle memory: ${name}`, measured: sum('idleMb'), required: idle[0], goal: idle[1], show: mb },
      { what: `peak memory in this run: ${name}`, measured: sum('peakMb'), required: peak[0], goal: peak[1], show: mb },
    ];
  });
}

function latency({ cells }: Results): Target[] {
  const added = (work: string, connections: number, figure: (measured: Measured) => number | null) =>
    between(
      measuredBy(cells, work, connections, 'gateway'),
      measuredBy(cells, work, connections, 'direct'),
      (gateway, direct) => (figure(gateway) ?? 0) - (figure(direct) ?? 0),
    );
  const waves = [
    [150, 95, 80],
    [500, 160, 120],
    [1000, 260, 180],
  ] as const;
  return [
    {
      what: 'upstream of 60 ms, 50 connections: p50 above direct',
      measured: added('chat-wait-60', 50, ({ p50 }) => p50),
      required: 3,
      goal: 1.5,
      show: ms,
    },
    {
      what: 'upstream of 60 ms, 50 connections: p99 above direct',
      measured: added('chat-wait-60', 50, ({ p99 }) => p99),
      required: 30,
      goal: 10,
      show: ms,
    },
    ...waves.map(
      ([connections, required, goal]): Target => ({
        what: `upstream of 60 ms, ${connections.toLocaleString('en')} connections: p99`,
        measured: measuredBy(cells, 'chat-wait-60', connections, 'gateway')?.p99,
        required,
        goal,
        show: ms,
      }),
    ),
    {
      what: 'added latency at 1 connection: p99 above direct',
      measured: added('chat-json', 1, ({ p99 }) => p99),
      required: 4,
      goal: 0.3,
      show: ms,
    },
    {
      what: 'added latency at 1 connection: p50 above direct',
      measured: added('chat-json', 1, ({ p50 }) => p50),
      required: 0.8,
      goal: null,
      show: ms,
    },
    {
      what: 'added time to the first token, 10 paced streams: p99 above direct',
      measured: added('chat-paced', 10, ({ firstP99 }) => firstP99),
      required: null,
      goal: 0.5,
      show: ms,
    },
    {
      what: 'added delay per token, 2,000 paced streams: p99 above bare',
      measured: between(
        measuredBy(cells, 'chat-paced', 2000, 'gateway'),
        measuredBy(cells, 'chat-paced', 2000, 'bare'),
        (gateway, bare) => (gateway.wordP99 ?? 0) - (bare.wordP99 ?? 0),
      ),
      required: 15,
      goal: 5,
      show: ms,
    },
  ];
}

const LOG_WRITERS = 256;

function log({ log }: Results): Target[] {
  return [
    {
      what: `log: durable events, ${LOG_WRITERS} writers`,
      measured: log?.writes.find(({ writers }) => writers === LOG_WRITERS)?.eventsPerSecond,
      atLeast: true,
      required: 250_000,
      goal: null,
      show: perSecond,
    },
  ];
}

function starts({ startUp, adminState }: Results): Target[] {
  const states = [
    ['from the log alone', adminState?.fromLog],
    ['from snapshots', adminState?.fromSnapshots],
  ] as const;
  return [
    {
      what: 'start to first answer, second start with an empty log',
      measured: startUp?.emptyMs,
      required: 500,
      goal: 300,
      show: ms,
    },
    {
      what: 'start to first answer, 1,000,000 events in the log',
      measured: startUp?.againMs,
      required: 900,
      goal: 500,
      show: ms,
    },
    ...states.flatMap(([how, start]): Target[] => [
      {
        what: `start with 100,000 keys and 10,000 user policies, ${how}`,
        measured: start?.startMs,
        required: 2000,
        goal: null,
        show: ms,
      },
      {
        what: `memory for them, ${how}`,
        measured: between(start, adminState?.empty, (full, empty) => full.peakMb - empty.peakMb),
        required: 150,
        goal: null,
        show: mb,
      },
    ]),
  ];
}

/** Paced streams and waves beyond the capacity of a server are no failures: only wrong and missing answers are. */
function failures({ cells }: Results): Target {
  const count = cells.flatMap((cell) => Object.values(cell.failures)).reduce((sum, each) => sum + each, 0);
  return {
    what: 'failed or wrong answers, all servers',
    measured: cells.length === 0 ? undefined : count,
    required: 0,
    goal: null,
    show: String,
  };
}

export function measuredBy(cells: readonly Cell[], work: string, connections: number, server: string) {
  return cells.find((cell) => cell.work === work && cell.connections === connections)?.servers[server];
}

/** Undefined when one of the two is missing. */
function between<A, B>(one: A | undefined | null, other: B | undefined | null, compare: (one: A, other: B) => number) {
  return one == null || other == null ? undefined : compare(one, other);
}

function verdictOf({ what, measured, atLeast = false, required, goal, show }: Target): Verdict {
  const limit = (value: number | null) => (value === null ? '–' : `${atLeast ? '≥' : '≤'} ${show(value)}`);
  const shown = { what, required: required === null ? 'measured' : limit(required), goal: limit(goal) };
  if (measured === undefined) return { ...shown, measured: '–', verdict: 'not measured' };
  const reaches = (value: number | null) => value !== null && (atLeast ? measured >= value : measured <= value);
  const verdict = reaches(goal)
    ? 'goal reached'
    : required === null
      ? 'measured'
      : reaches(required)
        ? 'reached'
        : 'NOT reached';
  return { ...shown, measured: show(measured), verdict };
}
