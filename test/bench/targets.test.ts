import { describe, expect, it } from 'vitest';
import { describeMachine } from '../../bench/machine.ts';
import type { Cell } from '../../bench/measure.ts';
import { type Run, report } from '../../bench/report.ts';
import { judge, type Results } from '../../bench/targets.ts';

const measured = { perSecond: 1000, p50: 1, p99: 2, firstP50: 1, firstP99: 2 };
const cell = (work: string, connections: number, more: Partial<Cell> = {}): Cell => ({
  work,
  describe: work,
  stream: work.includes('sse'),
  connections,
  measured: { provider: measured, bare: measured, gateway: measured },
  processorMs: { provider: 0.1, bare: 0.2, gateway: 0.3 },
  ratio: 0.7,
  governedRatio: null,
  addedP50: 1,
  addedFirstP50: 1,
  failures: {},
  ...more,
});
const none: Results = { cells: [], gateway: null, startUp: null, log: null, adminState: null };
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
  it('calls what was not measured so, never reached', () => {
    expect(new Set(judge(none).map((each) => each.verdict))).toEqual(new Set(['not measured']));
  });

  it.each([
    [0.6, 'reached'],
    [0.599, 'NOT reached'],
  ])('wants 0.6 of the bare rate: %s is %s', (ratio, expected) => {
    expect(verdict({ cells: [cell('chat-json', 50, { ratio })] }, 'chat, JSON: requests/s')).toBe(expected);
    expect(verdict({ cells: [cell('chat-sse', 50, { ratio })] }, 'chat, SSE: streams/s')).toBe(expected);
  });

  it.each([
    [0.9, 'reached'],
    [0.899, 'NOT reached'],
  ])('wants 0.9 of the gateway under a key with a budget: %s is %s', (governedRatio, expected) => {
    const what = 'chat, JSON: requests/s under';
    expect(verdict({ cells: [cell('chat-json', 50, { governedRatio })] }, what)).toBe(expected);
    expect(verdict({ cells: [cell('chat-json', 50)] }, what)).toBe('not measured');
  });

  it.each([
    [1.5, 'reached'],
    [1.51, 'NOT reached'],
  ])('allows 1.5 ms more than bare: %s is %s', (added, expected) => {
    expect(verdict({ cells: [cell('chat-json', 1, { addedP50: added })] }, 'chat, JSON: p50')).toBe(expected);
    expect(verdict({ cells: [cell('chat-sse', 1, { addedFirstP50: added })] }, 'chat, SSE: time to first data')).toBe(
      expected,
    );
  });

  it('looks at memory, the log, the start and failures', () => {
    expect(verdict({ gateway: { residentMb: 150, peakMb: 201 } }, 'gateway: peak')).toBe('NOT reached');
    expect(verdict({ gateway: { residentMb: 150, peakMb: 200 } }, 'gateway: peak')).toBe('reached');
    expect(verdict({ log }, 'log: durable')).toBe('reached');
    expect(
      verdict(
        { log: { ...log, writes: [{ writers: 256, eventsPerSecond: 249_999, p50Ms: 1, p99Ms: 2 }] } },
        'log: durable',
      ),
    ).toBe('NOT reached');
    expect(verdict({ startUp: { events: 1_000_000, againMs: 1001, firstMs: 900 } }, 'start to first answer')).toBe(
      'NOT reached',
    );
    expect(verdict({ cells: [cell('chat-json', 1, { failures: { 'bare: status 500': 1 } })] }, 'failed')).toBe(
      'NOT reached',
    );
    expect(verdict({ cells: [cell('chat-json', 1)] }, 'failed')).toBe('reached');
  });
});

describe('the judgement of many keys', () => {
  it('looks at the start and at the memory beyond that of a gateway without any', () => {
    const verdicts = judge({ ...none, adminState }).filter((each) => each.verdict !== 'not measured');
    expect(verdicts.map(({ measured: figure, verdict: said }) => `${figure}: ${said}`)).toEqual([
      '2000 ms: reached',
      '150 MB: reached',
      '2001 ms: NOT reached',
      '151 MB: NOT reached',
    ]);
  });
});

describe('the report', () => {
  const run: Run = {
    ...none,
    machine: describeMachine('.'),
    minutes: 1.25,
    rounds: 5,
    seconds: 1,
    remarks: [],
    cells: [cell('chat-json', 50, { ratio: 0.3, failures: { 'gateway: status 500': 2 } }), cell('chat-sse', 50)],
    gateway: { residentMb: 100, peakMb: 120 },
    startUp: { events: 1_000_000, againMs: 800, firstMs: 2000 },
    log,
    adminState,
  };

  it('shows the machine, each target with its verdict, the tables and every failure', () => {
    const text = report(run);
    expect(text).toContain(process.version);
    expect(text).toMatch(
      /chat, JSON: requests\/s, 50 connections \| ≥ 0\.6 of bare \| 0\.30 of bare \| \*\*NOT reached\*\*/,
    );
    expect(text).toMatch(/chat, SSE: streams\/s, 50 connections \| ≥ 0\.6 of bare \| 0\.70 of bare \| reached/);
    expect(text).toContain('gateway: status 500 | 2');
    expect(text).toContain('260,000');
    expect(text).toContain('| both, from the log alone | 2,000 | 270 | 270 |');
  });

  it('leaves out what was not measured', () => {
    const text = report({ ...run, ...none });
    expect(text).not.toContain('## JSON');
    expect(text).not.toContain('## Streams');
    expect(text).not.toContain('## Start-up');
    expect(text).not.toContain('## Many keys');
  });
});
