/** The parts of the benchmark that measure one thing without comparing servers. */
import type { Results } from '../benchmark.ts';
import type { AdminState } from '../sections/admin-state.ts';
import type { LogBench } from '../sections/log.ts';
import type { StartUp } from '../sections/start-up.ts';
import type { Tools } from '../sections/tools.ts';
import type { Turns } from '../sections/turns.ts';
import { milliseconds, table, whole } from './table.ts';

/** Sections of the report; parts that were not measured are left out. */
export function otherParts({
  startUp,
  adminState,
  log,
  turns,
  tools,
}: Pick<Results, 'startUp' | 'adminState' | 'log' | 'turns' | 'tools'>): string[] {
  return [
    ...(startUp === null ? [] : startUpSection(startUp)),
    ...(adminState === null ? [] : adminStateSection(adminState)),
    ...(turns === null ? [] : turnsSection(turns)),
    ...(tools === null ? [] : toolsSection(tools)),
    ...(log === null ? [] : logSection(log)),
  ];
}

function startUpSection({ events, againMs, firstMs, emptyMs }: StartUp): string[] {
  return [
    '## Start-up',
    `From starting the process to the first answered chat request, with ${whole(events)} events in the log: ` +
      `${whole(againMs)} ms; ${whole(firstMs)} ms when all read models have to be built first; ${whole(emptyMs)} ms with an empty log.`,
  ];
}

function adminStateSection(state: AdminState): string[] {
  const names = {
    empty: 'neither',
    fromLog: 'both, from the log alone',
    fromSnapshots: 'both, from snapshots',
  } as const;
  const rows = (['empty', 'fromLog', 'fromSnapshots'] as const).map((how) => {
    const { startMs, residentMb, peakMb } = state[how];
    return [names[how], whole(startMs), whole(residentMb), whole(peakMb)];
  });
  return [
    '## Many keys',
    `${whole(state.keys)} managed keys and ${whole(state.policies)} user policies, from starting the process to the first answer under one of the keys.`,
    table(['With', 'Start ms', 'Resident MB', 'Peak MB'], rows),
  ];
}

/** The columns and rows of a table. */
export function turnRows({ figures }: Turns): readonly [head: readonly string[], rows: readonly (readonly string[])[]] {
  const rows = figures.map(({ way, perSecond, p50Ms, processorUs }) => [
    way === 'HTTP' ? 'stream over HTTP' : way,
    ...[whole(perSecond), milliseconds(p50Ms), whole(processorUs)],
  ]);
  return [['Turns over', 'Turns/s', 'p50 ms', 'CPU µs'], rows];
}

function turnsSection(turns: Turns): string[] {
  const { turnsInChain, chains } = turns;
  return [
    '## Turns of the Responses API',
    `Chains of ${turnsInChain} turns, ${chains} at a time, with a provider whose responses are translated; each chain has a WebSocket of its own, or kept connections.`,
    table(...turnRows(turns)),
  ];
}

/** The columns and rows of a table. */
export function toolRows({ figures }: Tools): readonly [head: readonly string[], rows: readonly (readonly string[])[]] {
  const rows = figures.map(({ way, perSecond, p50Ms, processorUs }) => [
    way === 'direct' ? 'directly' : 'through the gateway',
    ...[whole(perSecond), milliseconds(p50Ms), whole(processorUs)],
  ]);
  return [['Calls of a tool', 'Calls/s', 'p50 ms', 'CPU µs'], rows];
}

function toolsSection(tools: Tools): string[] {
  return [
    '## Calls of tools',
    `A tool of an MCP server over streamable HTTP, called in ${tools.sessions} sessions at a time; the processor time is that of the process that the client calls.`,
    table(...toolRows(tools)),
  ];
}

function logSection(log: LogBench): string[] {
  const rows = log.writes.map(({ writers, eventsPerSecond, p50Ms, p99Ms }) => [
    `durable appends, ${writers} ${writers === 1 ? 'writer' : 'writers'}`,
    whole(eventsPerSecond),
    milliseconds(p50Ms),
    milliseconds(p99Ms),
  ]);
  rows.push(['reading everything', whole(log.readEventsPerSecond), '', '']);
  rows.push(['reading past everything', whole(log.filteredEventsPerSecond), '', '']);
  return [
    '## The log alone',
    `Events of ${log.eventBytes} bytes, no gateway around the log.`,
    table(['What', 'Events/s', 'p50 ms', 'p99 ms'], rows),
    `Opening a log of ${whole(log.openedBytes / 1e6)} MB took ${whole(log.openMs)} ms.`,
  ];
}
