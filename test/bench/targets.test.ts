import { describe, expect, it } from 'vitest';
import type { Results } from '../../bench/benchmark.ts';
import { describeMachine } from '../../bench/machine.ts';
import { type Run, report } from '../../bench/report/report.ts';
import { plainTable } from '../../bench/report/table.ts';
import type { Cell, Measured } from '../../bench/sections/closed-loop.ts';
import { isKept } from '../../bench/sections/sustained.ts';
import { judge } from '../../bench/targets.ts';

const measured = (more: Partial<Measured> = {}): Measured => ({
  perSecond: 1000,
  p50: 1,
  p99: 2,
  firstP50: null,
  firstP99: null,
  wordP50: null,
  wordP99: null,
  cpuMicros: 300,
  afterMicros: 10,
  flushMs: null,
  connectionKb: 4,
  ofBare: 0.5,
  p99OfBare: 3,
  cpuOfBare: 4,
  cpuOfThis: null,
  ...more,
});
const cell = (work: string, connections: number, servers: Cell['servers'], more: Partial<Cell> = {}): Cell => ({
  work,
  describe: work,
  stream: work.includes('sse') || work === 'chat-paced',
  connections,
  servers,
  failures: {},
  restless: [],
  disturbance: { stolen: 0, others: 0 },
  ...more,
});
const none: Results = {
  instant: 'nginx',
  awake: true,
  cells: [],
  sustained: [],
  inside: [],
  memory: [],
  log: null,
  startUp: null,
  adminState: null,
  turns: null,
  tools: null,
};
const log = {
  eventBytes: 466,
  writes: [{ writers: 256, eventsPerSecond: 260_000, p50Ms: 1, p99Ms: 2 }],
  readEventsPerSecond: 1_000_000,
  filteredEventsPerSecond: 2_000_000,
  openedBytes: 1e9,
  openMs: 500,
};
const start = (startMs: number, peakMb: number) => ({ startMs, residentMb: peakMb, peakMb });
const adminState = {
  keys: 100_000,
  policies: 10_000,
  empty: start(600, 120),
  fromLog: start(2000, 270),
  fromSnapshots: start(2001, 271),
};
const verdict = (results: Partial<Results>, what: string) =>
  judge({ ...none, ...results }).find((each) => each.what.startsWith(what))?.verdict;

describe('the judgement', () => {
  it('marks missing figures as not measured, never as reached', () => {
    expect(new Set(judge(none).map((each) => each.verdict))).toEqual(new Set(['not measured']));
  });

  it.each([
    [0.6, 'goal reached'],
    [0.45, 'reached'],
    [0.449, 'NOT reached'],
  ])('compares the rate with bare: %s is %s', (ofBare, expected) => {
    const cells = [cell('chat-json', 50, { gateway: measured({ ofBare }) })];
    expect(verdict({ cells }, 'chat JSON, 50 connections: rate')).toBe(expected);
  });

  it.each([
    ['chat-json', 'processor time per exchange, chat JSON', 150, 110],
    ['chat-sse', 'processor time per exchange, chat SSE', 240, 190],
  ])('compares the processor time of %s', (work, what, required, goal) => {
    const of = (cpuMicros: number) => verdict({ cells: [cell(work, 50, { gateway: measured({ cpuMicros }) })] }, what);
    expect([of(goal), of(goal + 1), of(required), of(required + 1)]).toEqual([
      'goal reached',
      'reached',
      'reached',
      'NOT reached',
    ]);
  });

  it('compares the gateway as shipped and governed with the gateway', () => {
    const rates = (shipped: number, governed: number) => ({
      cells: [
        cell('chat-json', 50, {
          gateway: measured(),
          shipped: measured({ perSecond: shipped }),
          governed: measured({ perSecond: governed }),
        }),
      ],
    });
    expect(verdict(rates(900, 930), 'as shipped')).toBe('reached');
    expect(verdict(rates(899, 929), 'as shipped')).toBe('NOT reached');
    expect(verdict(rates(900, 930), 'managed key')).toBe('reached');
    expect(verdict(rates(899, 929), 'managed key')).toBe('NOT reached');
  });

  it('subtracts the latency of the direct call', () => {
    const cells = (p50: number, p99: number) => [
      cell('chat-wait-60', 50, { direct: measured({ p50: 61, p99: 63 }), gateway: measured({ p50, p99 }) }),
      cell('chat-json', 1, { direct: measured({ p50: 0.1, p99: 0.2 }), gateway: measured({ p50: 0.8, p99: 4.1 }) }),
    ];
    expect(verdict({ cells: cells(64, 93) }, 'upstream of 60 ms, 50 connections: p50')).toBe('reached');
    expect(verdict({ cells: cells(64.1, 93) }, 'upstream of 60 ms, 50 connections: p50')).toBe('NOT reached');
    expect(verdict({ cells: cells(64, 93) }, 'upstream of 60 ms, 50 connections: p99')).toBe('reached');
    expect(verdict({ cells: cells(64, 94) }, 'upstream of 60 ms, 50 connections: p99')).toBe('NOT reached');
    expect(verdict({ cells: cells(64, 94) }, 'added latency at 1 connection: p99')).toBe('reached');
  });

  it('has figures that only need to be measured', () => {
    const sustained = (perSecond: number) => [{ server: 'gateway', perSecond, p50: 20, p99: 30 }];
    expect(verdict({ sustained: sustained(5999) }, 'sustained')).toBe('measured');
    expect(verdict({ sustained: sustained(6000) }, 'sustained')).toBe('goal reached');
  });

  it('covers memory, the log, the start and failures', () => {
    const memory = (peakMb: number, childMb: number) => [
      { server: 'gateway', process: 'server', idleMb: 90, afterMb: 100, peakMb },
      { server: 'shipped', process: 'server', idleMb: 90, afterMb: 100, peakMb },
      { server: 'shipped', process: 'child 1', idleMb: 231, afterMb: 300, peakMb: childMb },
    ];
    expect(verdict({ memory: memory(250, 350) }, 'peak memory in this run: gateway')).toBe('reached');
    expect(verdict({ memory: memory(251, 350) }, 'peak memory in this run: gateway')).toBe('NOT reached');
    expect(verdict({ memory: memory(250, 350) }, 'peak memory in this run: gateway with analytics')).toBe('reached');
    expect(verdict({ memory: memory(250, 351) }, 'peak memory in this run: gateway with analytics')).toBe(
      'NOT reached',
    );
    expect(verdict({ memory: memory(250, 350) }, 'idle memory: gateway')).toBe('goal reached');
    expect(verdict({ memory: memory(250, 350) }, 'idle memory: gateway with analytics')).toBe('NOT reached');
    expect(verdict({ log }, 'log: durable')).toBe('reached');
    const startUp = { events: 1_000_000, againMs: 901, firstMs: 900, emptyMs: 500 };
    expect(verdict({ startUp }, 'start to first answer, 1,000,000')).toBe('NOT reached');
    expect(verdict({ startUp }, 'start to first answer, second start')).toBe('reached');
    const failed = cell('chat-json', 1, { bare: measured() }, { failures: { 'bare: status 500': 1 } });
    expect(verdict({ cells: [failed] }, 'failed')).toBe('NOT reached');
    expect(verdict({ cells: [cell('chat-json', 1, { bare: measured() })] }, 'failed')).toBe('reached');
  });

  it('covers the start with many keys, and the memory beyond that of a gateway without any', () => {
    const verdicts = judge({ ...none, adminState }).filter((each) => each.verdict !== 'not measured');
    expect(verdicts.map(({ measured: figure, verdict: found }) => `${figure}: ${found}`)).toEqual([
      '2000 ms: reached',
      '150 MB: reached',
      '2001 ms: NOT reached',
      '151 MB: NOT reached',
    ]);
  });
});

describe('a sustained rate', () => {
  const quantiles = { count: 2000, p50: 21, p90: 25, p99: 999, max: 1500 };
  const result = {
    answers: 1940,
    total: 2000,
    perSecond: 970,
    latencyMs: quantiles,
    firstDataMs: null,
    wordMs: null,
    bytes: 1,
    failures: { 'status 503': 2 },
  };

  it('has few failures, a bounded tail and no growing backlog', () => {
    expect(isKept(result, 2000)).toBe(true);
    expect(isKept({ ...result, answers: 1939 }, 2000)).toBe(false);
    expect(isKept({ ...result, failures: { 'status 503': 2, 'status 500': 1 } }, 2000)).toBe(false);
    expect(isKept({ ...result, latencyMs: { ...quantiles, p99: 1000 } }, 2000)).toBe(false);
  });
});

describe('the report', () => {
  const run: Run = {
    ...none,
    machine: describeMachine('.'),
    minutes: 1.25,
    rounds: 5,
    seconds: 1,
    cells: [
      cell(
        'chat-json',
        1,
        { direct: measured({ p99: 0.2 }), bare: measured({ p99: 0.5 }), gateway: measured({ p99: 1.4 }) },
        { failures: { 'gateway: status 500': 2 }, restless: ['gateway'] },
      ),
      cell('chat-paced', 10, { gateway: measured({ wordP50: 0.5, wordP99: 3.25 }) }),
    ],
    sustained: [{ server: 'gateway', perSecond: 2345, p50: 21, p99: 40 }],
    inside: [
      {
        server: 'gateway',
        describe: 'chat, JSON',
        heapKb: 57.9,
        externalKb: 1.4,
        garbageShare: 0.115,
        longestPauseMs: 17,
        threads: [{ name: 'MainThread', micros: 301 }],
      },
    ],
    memory: [
      { server: 'shipped', process: 'server', idleMb: 120, afterMb: 200, peakMb: 260 },
      { server: 'shipped', process: 'child 1', idleMb: 300, afterMb: 400, peakMb: 500 },
    ],
    startUp: { events: 1_000_000, againMs: 800, firstMs: 2000, emptyMs: 600 },
    log,
    adminState,
  };

  it('shows the machine, each target with both limits, every part and every failure', () => {
    const text = report(run);
    expect(text).toContain(process.version);
    expect(text).toMatch(/added latency at 1 connection: p99 above direct \| ≤ 4\.00 ms \| ≤ 0\.30 ms \| 1\.20 ms/);
    expect(text).toContain('| added latency at 1 connection, p99, µs | 300 | 1200 |');
    expect(text).toContain('| chat-json | 1 | gateway: status 500 | 2 |');
    expect(text).toContain('gateway did not come to rest after each round');
    expect(text).toContain('| gateway | 2,345 | 21.00 | 40.00 |');
    expect(text).toContain('| chat, JSON | gateway | 57.9 | 1.4 | 11.5 % | 17.0 | MainThread 301 |');
    expect(text).toContain('| shipped | child 1 | 300 | 400 | 500 |');
    expect(text).toContain('| both, from the log alone | 2,000 | 270 | 270 |');
    expect(text).toContain('3.25');
  });

  it('leaves out figures that were not measured', () => {
    const text = report({ ...run, ...none });
    for (const title of ['JSON', 'streams', 'Many', 'Sustained', 'Inside', 'Memory of', 'Start-up', 'Failures']) {
      expect(text).not.toMatch(new RegExp(`^## .*${title}`, 'm'));
    }
  });
});

describe('a table on the terminal', () => {
  it('puts texts to the left and figures to the right', () => {
    expect(
      plainTable(
        ['server', 'per s', 'most of it'],
        [
          ['bare', '1,000', 'a 1'],
          ['gateway', '–', 'bcd 2'],
        ],
      ),
    ).toBe('server   per s  most of it\nbare     1,000  a 1\ngateway      –  bcd 2');
  });
});
