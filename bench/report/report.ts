/** The results as Markdown: nothing in it is written by hand. */
import type { Results } from '../benchmark.ts';
import type { Machine } from '../machine.ts';
import type { Cell, Rounds } from '../sections/closed-loop.ts';
import { judge } from '../targets.ts';
import { cellColumns, cellRows } from './cell-tables.ts';
import { neutralMeasures } from './neutral-measures.ts';
import { otherParts } from './other-parts.ts';
import { milliseconds, table, whole } from './table.ts';

export interface Run extends Results, Rounds {
  readonly machine: Machine;
  readonly minutes: number;
  /** Cells that were measured once more afterwards, instead of those of the run. */
  readonly again?: readonly Again[];
}

export interface Again {
  readonly date: string;
  readonly commit: string;
  readonly cells: readonly string[];
}

export function report(run: Run): string {
  const { cells } = run;
  const of = (wanted: (cell: Cell) => boolean) => cells.filter(wanted);
  const isTimed = ({ work }: Cell) => ['chat-wait-60', 'chat-paced', 'chat-slow'].includes(work);
  return `${[
    '# Benchmark results',
    'Written by `npm run bench`; see README.md for how to run and read it.',
    machineTable(run),
    '## Targets',
    table(
      ['What', 'Required here', 'Goal of later work', 'Measured', 'Verdict'],
      judge(run).map(({ what, required, goal, measured, verdict }) => [
        what,
        required,
        goal,
        measured,
        verdict === 'NOT reached' ? `**${verdict}**` : verdict,
      ]),
    ),
    '## Method',
    method(run),
    ...cellSection(
      '## An upstream that answers at once: JSON',
      of((cell) => !cell.stream && !isTimed(cell)),
    ),
    ...cellSection(
      '## An upstream that answers at once: streams',
      of((cell) => cell.stream && !isTimed(cell)),
    ),
    ...cellSection(
      '## Many connections: an upstream that takes 60 ms',
      of(({ work }) => work === 'chat-wait-60'),
    ),
    ...cellSection(
      '## Many streams: words at a pace',
      of(({ work }) => work === 'chat-paced' || work === 'chat-slow'),
    ),
    ...sustainedSection(run),
    '## The measures of a neutral leaderboard',
    neutralMeasures(run),
    ...insideSection(run),
    ...memorySection(run),
    ...otherParts(run),
    ...problems(cells),
    `The run took ${run.minutes.toFixed(1)} minutes.`,
  ].join('\n\n')}\n`;
}

function machineTable({ machine, instant, awake }: Run): string {
  return table(
    ['Machine', ''],
    [
      ['Processor', `${machine.processor}, ${machine.cores} cores`],
      ['Memory', `${machine.memoryGb} GB`],
      ['Kernel', machine.kernel],
      ['File system of the log', machine.fileSystem],
      ['Node', machine.node],
      ['Upstream that answers at once', instant],
      ['Processors kept from sleeping', awake ? 'yes' : 'no'],
      ['Date', machine.date],
      ['Commit', machine.commit],
    ],
  );
}

function method({ rounds, seconds, again = [] }: Run): string {
  return [
    '- `direct`: load generator and upstream with no server in the middle. `bare`: Fastify and undici and nothing else. `gateway`: analytics off. `shipped`: analytics on, on the same core. `governed`: `gateway` under a managed key with a list of models, a budget and rate limits above it. `guarded`: `gateway` with a workflow of three guardrails in all phases. `cached`: `gateway` with the response cache, which answers every request but the first.',
    '- The server has core 0 with all its threads and children; load generator and upstream have the others. Everything is recorded, durability `standard`.',
    `- Closed loop, keep-alive, ${rounds} interleaved rounds of ${seconds} s (2 or 3 of at least 2 s where the upstream takes its time), after a warm-up of 4 s, and of 10 s with a server's first work; each round begins when the server before it has nothing left to seal, index or project. Figures are medians over rounds, ratios medians of those within a round.`,
    '- CPU µs: user and system time of the server with its threads and children, per exchange; "of it after" is what it did after the last answer of a round.',
    '- Every answer is compared with the expected one: byte by byte where it is relayed, by its end and its text where it is translated. Answers have 30 words; streams have 33 events in one write, or, paced, one for each word with the time at which it was sent.',
    '- Translated work asks `direct` and `bare` the equal chat request.',
    '- Flush ms: what a flush of the disk took during the rounds of this server (`/proc/diskstats`). A round waits while a sync takes more than 1 ms, and is repeated where flushes did, or where others used more than 3 % of the processor.',
    ...again.map(({ date, commit, cells }) => `- Measured again on ${date}, commit ${commit}: ${cells.join('; ')}.`),
  ].join('\n');
}

/** One table: the columns of the widest cell, a group of rows for each cell. */
function cellSection(title: string, cells: readonly Cell[]): string[] {
  const [first] = cells;
  if (first === undefined) return [];
  const [server = 'server', ...figures] = cellColumns(first);
  const rows = cells.flatMap((cell) =>
    cellRows(cell).map((row, at) => [
      at === 0 ? cell.describe : '',
      at === 0 ? whole(cell.connections) : '',
      ...row,
      at === 0 ? disturbed(cell) : '',
    ]),
  );
  return [title, table(['Work', 'Connections', server, ...figures, 'stolen / others'], rows)];
}

function disturbed({ disturbance: { stolen, others } }: Cell): string {
  return `${(stolen * 100).toFixed(0)} / ${(others * 100).toFixed(0)} %`;
}

function sustainedSection({ sustained }: Run): string[] {
  if (sustained.length === 0) return [];
  const rows = sustained.map(({ server, perSecond, p50, p99 }) => [
    server,
    whole(perSecond),
    milliseconds(p50),
    milliseconds(p99),
  ]);
  return [
    '## Sustained rate: an upstream that takes 20 ms',
    'The highest rate of requests that come at their time with p99 below 1 s, fewer than 0.1 % errors, and no growing backlog.',
    table(['server', 'requests/s', 'p50 ms', 'p99 ms'], rows),
  ];
}

function insideSection({ inside }: Run): string[] {
  if (inside.length === 0) return [];
  const rows = inside.map(({ server, describe, heapKb, externalKb, garbageShare, longestPauseMs, threads }) => [
    describe,
    server,
    heapKb.toFixed(1),
    externalKb.toFixed(1),
    `${(garbageShare * 100).toFixed(1)} %`,
    longestPauseMs.toFixed(1),
    threads.map(({ name, micros }) => `${name} ${micros.toFixed(0)}`).join(', '),
  ]);
  return [
    '## Inside, for an exchange',
    'At 50 connections, in a run of its own. Memory that the thread running JavaScript allocates; its pauses for garbage collection, of the processor time of the whole process; processor time by thread in µs.',
    table(['Work', 'server', 'heap KB', 'outside KB', 'GC share', 'longest pause ms', 'threads'], rows),
  ];
}

function memorySection({ memory }: Run): string[] {
  if (memory.length === 0) return [];
  const rows = memory.map(({ server, process, idleMb, afterMb, peakMb }) => [
    server,
    process,
    whole(idleMb),
    whole(afterMb),
    whole(peakMb),
  ]);
  return ['## Memory of each process', table(['server', 'process', 'idle MB', 'after the run MB', 'peak MB'], rows)];
}

function problems(cells: readonly Cell[]): string[] {
  const rows = cells.flatMap((cell) =>
    [
      ...Object.entries(cell.failures).map(([what, count]) => [what, String(count)]),
      ...cell.restless.map((name) => [`${name} did not come to rest after each round`, '']),
    ].map((row) => [cell.describe, whole(cell.connections), ...row]),
  );
  return rows.length === 0 ? [] : ['## Failures', table(['Work', 'Connections', 'What', 'How often'], rows)];
}
