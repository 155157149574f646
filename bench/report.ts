/** The results as Markdown: nothing in it is written by hand. */
import type { Machine } from './machine.ts';
import type { Cell, Measured, Rounds } from './measure.ts';
import { judge, type Results } from './targets.ts';
import { PACE_MS, type Subject, WORDS } from './work.ts';

export interface Run extends Results, Rounds {
  readonly machine: Machine;
  readonly minutes: number;
  /** Anything that makes this run less than a full one. */
  readonly remarks: readonly string[];
}

export function report(run: Run): string {
  const { machine, cells, gateway, startUp, log, adminState } = run;
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
      '- "governed" is the same gateway, asked under a managed key with a list of models, a budget and rate limits for requests and tokens above it.',
      '- "responses → chat" is a provider without `/v1/responses`; the bare pass-through then relays the equal chat request.',
      `- Closed loop, keep-alive. After a warm-up each cell has ${run.rounds} rounds of ${run.seconds} s per server, taking turns in rotating order, backwards every other round; figures are medians over rounds, ratios and differences medians of those within a round.`,
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
  if (adminState !== null) {
    const { keys, policies } = adminState;
    const rows = (['empty', 'fromLog', 'fromSnapshots'] as const).map((how) => {
      const { startMs, residentMb, peakMb } = adminState[how];
      const name = { empty: 'neither', fromLog: 'both, from the log alone', fromSnapshots: 'both, from snapshots' }[
        how
      ];
      return [name, whole(startMs), whole(residentMb), whole(peakMb)];
    });
    parts.push(
      '## Many keys',
      `${whole(keys)} managed keys and ${whole(policies)} user policies, from starting the process to the first answer under one of the keys.`,
      table(['With', 'Start ms', 'Resident MB', 'Peak MB'], rows),
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
    subjectRows(cell, ({ perSecond, p50, p99 }) => [whole(perSecond), milliseconds(p50), milliseconds(p99)]),
  );
  return table(['Work', 'Connections', 'Server', 'Requests/s', 'p50 ms', 'p99 ms', 'CPU ms', 'of bare'], rows);
}

function streamTable(cells: readonly Cell[]): string {
  const rows = cells.flatMap((cell) =>
    subjectRows(cell, ({ perSecond, firstP50, firstP99, p50, p99 }) => [
      whole(perSecond),
      milliseconds(firstP50),
      milliseconds(firstP99),
      milliseconds(p50),
      milliseconds(p99),
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

function subjectRows(cell: Cell, figures: (measured: Measured) => string[]): string[][] {
  return (['provider', 'bare', 'gateway', 'governed'] as const).flatMap((subject) => {
    const measured = cell.measured[subject];
    if (measured === undefined) return [];
    const isFirst = subject === 'provider';
    return [
      [
        isFirst ? cell.describe : '',
        isFirst ? String(cell.connections) : '',
        subject,
        ...figures(measured),
        milliseconds(cell.processorMs[subject] ?? null),
        againstBare(cell, subject),
      ],
    ];
  });
}

function againstBare({ ratio, governedRatio }: Cell, subject: Subject): string {
  if (subject === 'gateway') return ratio?.toFixed(2) ?? '';
  return subject === 'governed' && governedRatio !== null ? `${governedRatio.toFixed(2)} of gateway` : '';
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
