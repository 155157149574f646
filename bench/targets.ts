/** What the benchmark is to show, judged from its numbers alone. */
import type { AdminState } from './admin-state.ts';
import type { LogBench } from './log.ts';
import type { Cell } from './measure.ts';
import type { Memory } from './process-stat.ts';
import type { StartUp } from './start-up.ts';

export interface Results {
  readonly cells: readonly Cell[];
  readonly gateway: Memory | null;
  readonly startUp: StartUp | null;
  readonly log: LogBench | null;
  readonly adminState: AdminState | null;
}

export interface Verdict {
  readonly what: string;
  readonly target: string;
  readonly measured: string;
  readonly verdict: 'reached' | 'NOT reached' | 'not measured';
}

const LEAST_RATIO = 0.6;
const MOST_ADDED_MS = 1.5;
const MOST_MEMORY_MB = 200;
/** Of what the gateway does without anybody's budget and limits. */
const LEAST_GOVERNED_RATIO = 0.9;
const LEAST_EVENTS_PER_SECOND = 250_000;
const LOG_WRITERS = 256;
const MOST_START_MS = 1000;
const MOST_ADMIN_START_MS = 2000;
const MOST_ADMIN_MEMORY_MB = 150;

export function judge({ cells, gateway, startUp, log, adminState }: Results): Verdict[] {
  const cell = (work: string, connections: number) =>
    cells.find((each) => each.work === work && each.connections === connections);
  const throughput = (what: string, work: string, connections: number) =>
    atLeast(
      `${what}, ${connections} connections`,
      cell(work, connections)?.ratio ?? undefined,
      LEAST_RATIO,
      'of bare',
      (ratio) => `${ratio.toFixed(2)} of bare`,
    );
  const governed = (what: string, work: string) =>
    atLeast(
      `${what} under a managed key, a budget and limits, 50 connections`,
      cell(work, 50)?.governedRatio ?? undefined,
      LEAST_GOVERNED_RATIO,
      'of the gateway without',
      (ratio) => `${ratio.toFixed(2)} of the gateway without`,
    );
  const added = (what: string, work: string, connections: number, figure: (cell: Cell) => number | null) => {
    const found = cell(work, connections);
    const name = `${what}, ${connections === 1 ? '1 connection' : `${connections} connections`}`;
    return atMost(
      name,
      found && (figure(found) ?? undefined),
      MOST_ADDED_MS,
      `bare + ${MOST_ADDED_MS} ms`,
      (ms) => `bare + ${ms.toFixed(2)} ms`,
    );
  };
  const first = (each: Cell) => each.addedFirstP50;
  const failures = cells.flatMap((each) => Object.values(each.failures)).reduce((sum, count) => sum + count, 0);
  const writers = log?.writes.find((each) => each.writers === LOG_WRITERS)?.eventsPerSecond;
  return [
    throughput('chat, JSON: requests/s', 'chat-json', 50),
    added('chat, JSON: p50', 'chat-json', 1, (each) => each.addedP50),
    throughput('chat, SSE: streams/s', 'chat-sse', 50),
    throughput('responses, SSE: streams/s', 'responses-sse', 50),
    throughput('responses → chat, SSE: streams/s', 'translated-sse', 50),
    throughput('chat, SSE in one write: streams/s', 'chat-sse-burst', 50),
    governed('chat, JSON: requests/s', 'chat-json'),
    governed('chat, SSE: streams/s', 'chat-sse'),
    added('chat, SSE: time to first data, p50', 'chat-sse', 1, first),
    added('chat, SSE paced: time to first data, p50', 'chat-sse-paced', 10, first),
    added('chat, SSE paced: time to first data, p50', 'chat-sse-paced', 50, first),
    added('responses, SSE: time to first data, p50', 'responses-sse', 1, first),
    added('responses → chat, SSE: time to first data, p50', 'translated-sse', 1, first),
    atMost(
      'gateway: peak resident memory under this load',
      gateway?.peakMb,
      MOST_MEMORY_MB,
      `${MOST_MEMORY_MB} MB`,
      (mb) => `${mb.toFixed(0)} MB`,
    ),
    atLeast(
      `log: durable events/s, ${LOG_WRITERS} writers`,
      writers,
      LEAST_EVENTS_PER_SECOND,
      `${LEAST_EVENTS_PER_SECOND.toLocaleString('en')}/s`,
      (rate) => `${Math.round(rate).toLocaleString('en')}/s`,
    ),
    atMost(
      `start to first answer, ${(startUp?.events ?? 1_000_000).toLocaleString('en')} events in the log`,
      startUp?.againMs,
      MOST_START_MS,
      `${MOST_START_MS} ms`,
      (ms) => `${ms.toFixed(0)} ms`,
    ),
    ...judgeAdminState(adminState),
    atMost('failed or wrong answers, all servers', cells.length === 0 ? undefined : failures, 0, '0', String),
  ];
}

function judgeAdminState(state: AdminState | null): Verdict[] {
  const starts = [
    ['from the log alone', state?.fromLog],
    ['from snapshots', state?.fromSnapshots],
  ] as const;
  return starts.flatMap(([how, start]) => [
    atMost(
      `start with 100,000 keys and 10,000 user policies, ${how}`,
      start?.startMs,
      MOST_ADMIN_START_MS,
      `${MOST_ADMIN_START_MS} ms`,
      (ms) => `${ms.toFixed(0)} ms`,
    ),
    atMost(
      `memory for them, ${how}`,
      start && state ? start.peakMb - state.empty.peakMb : undefined,
      MOST_ADMIN_MEMORY_MB,
      `${MOST_ADMIN_MEMORY_MB} MB`,
      (mb) => `${mb.toFixed(0)} MB`,
    ),
  ]);
}

function atLeast(
  what: string,
  value: number | undefined,
  limit: number,
  unit: string,
  format: (value: number) => string,
): Verdict {
  return judged(
    what,
    `≥ ${unit.startsWith('of') ? `${limit} ${unit}` : unit}`,
    value,
    (measured) => measured >= limit,
    format,
  );
}

function atMost(
  what: string,
  value: number | undefined,
  limit: number,
  shown: string,
  format: (value: number) => string,
): Verdict {
  return judged(what, `≤ ${shown}`, value, (measured) => measured <= limit, format);
}

function judged(
  what: string,
  target: string,
  value: number | undefined,
  isReached: (value: number) => boolean,
  format: (value: number) => string,
): Verdict {
  if (value === undefined) return { what, target, measured: '–', verdict: 'not measured' };
  return { what, target, measured: format(value), verdict: isReached(value) ? 'reached' : 'NOT reached' };
}
