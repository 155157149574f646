/** The parts of the benchmark that measure one thing without comparing servers. */
import type { Results } from '../benchmark.ts';
import type { AdminState } from '../sections/admin-state.ts';
import type { LogBench } from '../sections/log.ts';
import type { StartUp } from '../sections/start-up.ts';
import { milliseconds, table, whole } from './table.ts';

/** Sections of the report; parts that were not measured are left out. */
export function otherParts({ startUp, adminState, log }: Pick<Results, 'startUp' | 'adminState' | 'log'>): string[] {
  return [
    ...(startUp === null ? [] : startUpSection(startUp)),
    ...(adminState === null ? [] : adminStateSection(adminState)),
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
