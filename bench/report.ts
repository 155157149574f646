/** The results as Markdown: nothing in it is written by hand. */
import type { Machine } from './machine.ts';
import type { Cell, Rounds } from './measure.ts';
import { judge, type Results } from './targets.ts';
import { PACE_MS, WORDS } from './work.ts';

export interface Run extends Results, Rounds {
  readonly machine: Machine;
  readonly minutes: number;
  /** Anything that makes this run less than a full one. */
  readonly remarks: readonly string[];
}

export function report(run: Run): string {
  const { machine, cells, gateway, startUp, log } = run;
  const parts = [
    '# Benchmark results',
    'Written by `npm run bench`; see README.md for how to run and read it.',
    table(
      ['Machine', ''],
      [
        ['Processor', `${machine.processor}, ${machine.cores} cores (shared by all processes of the benchmark)`],
        ['Memory', `${machine.memoryGb} GB`],
        ['Kernel', machine.kernel],
        ['File system of the log', machine.fileSystem],
        ['Node', machine.node],
        ['Date', machine.date],
        ['Commit', machine.commit],
      ],
    ),
    ...run.remarks.map((remark) => `**Note:** ${remark}`),
    '## Targets',
    table(
      ['What', 'Target', 'Measured', 'Verdict'],
      judge(run).map(({ what, target, measured, verdict }) => [
        what,
        target,
        measured,
        verdict === 'NOT reached' ? `**${verdict}**` : verdict,
      ]),
    ),
    '## Method',
    [
      `- Four processes on loopback: load generator → (bare pass-through | gateway) → simulated provider; \`provider\` rows leave the middle out.`,
      `- The provider answers at once, ${WORDS} tokens. A chat stream has 33 events, each its own write; "paced" has ${PACE_MS} ms between them, "in one write" sends all at once.`,
      '- The bare pass-through is Fastify and undici and nothing else. The gateway does all its work: authentication, routing, every body and every stream event on disk before the answer ends.',
      '- "responses → chat" is a provider without `/v1/responses`; the bare pass-through then relays the equal chat request.',
      `- Closed loop, keep-alive. After a warm-up each cell has ${run.rounds} rounds of ${run.seconds} s per server, taking turns in rotating order; figures are medians over rounds, ratios and differences medians of those within a round.`,
      '- Every answer is checked to be whole. Processor time is user + system time of the process with its children, per answer.',
    ].join('\n'),
    ...section(
      '## JSON',
      latencyTable,
      cells.filter(({ stream }) => !stream),
    ),
    ...section(
      '## Streams',
      streamTable,
      cells.filter(({ stream }) => stream),
    ),
    ...failures(cells),
  ];
  if (gateway !== null) {
    parts.push(
      '## Memory',
      `The gateway's process after all of this: ${gateway.residentMb.toFixed(0)} MB resident, ${gateway.peakMb.toFixed(0)} MB at its peak.`,
    );
  }
  if (startUp !== null) {
    const { events, againMs, firstMs } = startUp;
    parts.push(
      '## Start-up',
      `From starting the process to the first answered chat request, with ${events.toLocaleString('en')} events in the log: ` +
        `${againMs.toFixed(0)} ms; ${firstMs.toFixed(0)} ms when all read models have to be built first.`,
    );
  }
  if (log !== null) {
    const rows = log.writes.map(({ writers, eventsPerSecond, p50Ms, p99Ms }) => [
      `durable appends, ${writers} ${writers === 1 ? 'writer' : 'writers'}`,
      whole(eventsPerSecond),
      milliseconds(p50Ms),
      milliseconds(p99Ms),
    ]);
    rows.push(['reading everything', whole(log.readEventsPerSecond), '', '']);
    rows.push(['reading past everything', whole(log.filteredEventsPerSecond), '', '']);
    parts.push(
      '## The log alone',
      `Events of ${log.eventBytes} bytes, no gateway around the log.`,
      table(['What', 'Events/s', 'p50 ms', 'p99 ms'], rows),
      `Opening a log of ${whole(log.openedBytes / 1e6)} MB took ${whole(log.openMs)} ms.`,
    );
  }
  parts.push(`The run took ${run.minutes.toFixed(1)} minutes.`);
  return `${parts.join('\n\n')}\n`;
}

function section(title: string, tableOf: (cells: readonly Cell[]) => string, cells: readonly Cell[]): string[] {
  return cells.length === 0 ? [] : [title, tableOf(cells)];
}

function latencyTable(cells: readonly Cell[]): string {
  const rows = cells.flatMap((cell) =>
    subjectRows(cell, ({ measured, processorMs }, subject) => [
      whole(measured[subject].perSecond),
      milliseconds(measured[subject].p50),
      milliseconds(measured[subject].p99),
      milliseconds(processorMs[subject]),
    ]),
  );
  return table(['Work', 'Connections', 'Server', 'Requests/s', 'p50 ms', 'p99 ms', 'CPU ms', 'of bare'], rows);
}

function streamTable(cells: readonly Cell[]): string {
  const rows = cells.flatMap((cell) =>
    subjectRows(cell, ({ measured, processorMs }, subject) => [
      whole(measured[subject].perSecond),
      milliseconds(measured[subject].firstP50),
      milliseconds(measured[subject].firstP99),
      milliseconds(measured[subject].p50),
      milliseconds(measured[subject].p99),
      milliseconds(processorMs[subject]),
    ]),
  );
  return table(
    [
      'Work',
      'Connections',
      'Server',
      'Streams/s',
      'first data p50 ms',
      'p99 ms',
      'whole p50 ms',
      'p99 ms',
      'CPU ms',
      'of bare',
    ],
    rows,
  );
}

function subjectRows(
  cell: Cell,
  figures: (cell: Cell, subject: 'provider' | 'bare' | 'gateway') => string[],
): string[][] {
  return (['provider', 'bare', 'gateway'] as const).map((subject) => [
    subject === 'provider' ? cell.describe : '',
    subject === 'provider' ? String(cell.connections) : '',
    subject,
    ...figures(cell, subject),
    subject === 'gateway' ? (cell.ratio?.toFixed(2) ?? '') : '',
  ]);
}

function failures(cells: readonly Cell[]): string[] {
  const rows = cells.flatMap((cell) =>
    Object.entries(cell.failures).map(([what, count]) => [
      cell.describe,
      String(cell.connections),
      what,
      String(count),
    ]),
  );
  return rows.length === 0 ? [] : ['## Failures', table(['Work', 'Connections', 'What', 'How often'], rows)];
}

const whole = (value: number) => Math.round(value).toLocaleString('en');
const milliseconds = (value: number | null) => (value === null ? '–' : value.toFixed(2));

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}
