/** `chancery views list`, `views status`, `views rebuild <name>` and `views skip <name>`. */

import { skippedStream, viewEventSkipped } from '../events/catalogue/gateway.ts';
import {
  formatPosition,
  InvalidPosition,
  type Position,
  parsePosition,
  positionBefore,
  type RecordedEvent,
} from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { type SavedView, savedViews } from '../projections/saved-views.ts';
import { type Skipped, saveBound, skippedEvents } from '../projections/snapshot-basis.ts';
import { openViewStore, type SavedSnapshot, savedSnapshots, viewsFile } from '../projections/view-store.ts';
import { type ParsedArguments, twoColumns, UsageError } from './command.ts';
import type { AnalyticsProgress, AnalyticsRebuild } from './program-parts.ts';
import { bytes, complain, count, progressOn, type Terminal, writeLine } from './terminal.ts';

const analyticsView = {
  name: 'analytics',
  about: 'all events, in ClickHouse; written by the analytics process',
} as const;

export async function viewsList(args: ParsedArguments, terminal: Terminal): Promise<number> {
  const views = [...savedViews, analyticsView].map(({ name, about }) => ({ name, about }));
  await writeLine(
    terminal,
    args.switches.has('json')
      ? JSON.stringify(views)
      : twoColumns(views.map(({ name, about }) => [name, about] as const)),
  );
  return 0;
}

interface ViewStatus {
  readonly name: string;
  /** Of this build; null for analytics, whose process checks its version. */
  readonly version: number | null;
  /** Every event up to this position is stored; null when none is. */
  readonly position: string | null;
  /** Events of the log behind that position; null when nothing is saved, or the saved position is invalid. */
  readonly lagEvents: number | null;
  readonly savedAt: string | null;
  /** Approximate size of the saved form, in bytes. */
  readonly size: number | null;
  readonly note: string | null;
  readonly skipped: readonly Skipped[];
}

export async function viewsStatus(
  args: ParsedArguments,
  log: EventLog,
  dataDir: string,
  analytics: () => Promise<AnalyticsProgress>,
  terminal: Terminal,
): Promise<number> {
  const head = await log.head();
  const snapshots = savedSnapshots(viewsFile(dataDir));
  const skipped = await skippedEvents(log);
  const skippedOf = (name: string) => skipped.filter(({ view }) => view === name);
  const statuses = savedViews.map(({ name, version }) =>
    statusOf(name, version, snapshots.get(name), head, skippedOf(name)),
  );
  const progress = await analytics();
  const position = 'position' in progress ? String(progress.position).padStart(16, '0') : null;
  statuses.push({
    name: analyticsView.name,
    version: null,
    position,
    lagEvents: position === null ? null : lag(position, head),
    savedAt: null,
    size: null,
    note: 'unknown' in progress ? progress.unknown : null,
    skipped: skippedOf(analyticsView.name),
  });
  const text = args.switches.has('json') ? JSON.stringify({ head, views: statuses }) : textOf(head, statuses);
  await writeLine(terminal, text);
  return 0;
}

function statusOf(
  name: string,
  version: number,
  snapshot: SavedSnapshot | undefined,
  head: string,
  skipped: readonly Skipped[],
): ViewStatus {
  const outdated = snapshot !== undefined && snapshot.version !== version;
  const note = outdated ? `of version ${snapshot.version}: rebuilt at the next start` : null;
  return {
    name,
    version,
    position: snapshot?.position ?? null,
    lagEvents: snapshot === undefined ? null : lag(snapshot.position, head),
    savedAt: snapshot?.savedAt ?? null,
    size: snapshot?.size ?? null,
    note: snapshot === undefined ? 'not saved yet: built at the next start' : note,
    skipped,
  };
}

function lag(position: string, head: string): number | null {
  try {
    return Math.max(0, parsePosition(head) - parsePosition(position));
  } catch (error) {
    if (error instanceof InvalidPosition) return null;
    throw error;
  }
}

function textOf(head: string, statuses: readonly ViewStatus[]): string {
  const rows = statuses.flatMap(({ name, position, lagEvents, savedAt, size, note, skipped }) => {
    const parts = [
      position === null ? undefined : `at ${position}`,
      lagEvents === null ? undefined : `${count(lagEvents, 'event')} behind`,
      savedAt === null ? undefined : `saved ${savedAt}`,
      size === null ? undefined : bytes(size),
      note ?? undefined,
    ].filter((one) => one !== undefined);
    return [
      [name, parts.join(', ')] as const,
      ...skipped.map(
        (one) => ['', `without event ${one.position} (${one.eventType}): ${one.reason}; ${one.by}`] as const,
      ),
    ];
  });
  return twoColumns([['log', `ends at ${head}`], ...rows]);
}

/** Folds the log again beside the present snapshot, and replaces it when the new one is complete. */
export async function viewsRebuild(
  args: ParsedArguments,
  log: EventLog,
  dataDir: string,
  terminal: Terminal,
): Promise<number> {
  const view = rebuildable(args.operands[0] ?? '');
  if (args.values['from'] !== undefined) {
    throw new UsageError(`--from is only for analytics: ${view.name} is built from the whole log`);
  }
  const head = await log.head();
  const progress = progressOn(terminal);
  let events = 0;
  const onEvent = (event: RecordedEvent) => {
    events += 1;
    progress.show(() => `${view.name}: ${count(events, 'event')}, at ${event.position} of ${head}`);
  };
  try {
    const snapshot = await view.fold(log, { signal: terminal.signal, onEvent });
    progress.clear();
    if (snapshot === undefined) {
      await writeLine(terminal, 'the log is empty: there is nothing to rebuild');
      return 0;
    }
    const store = openViewStore(viewsFile(dataDir));
    try {
      await saveBound(log, store, [snapshot]);
    } finally {
      store.close();
    }
    await writeLine(terminal, `${view.name} was rebuilt from ${count(events, 'event')}, up to ${snapshot.position}`);
    return 0;
  } catch (error) {
    progress.clear();
    if (!terminal.signal.aborted) throw error;
    complain(terminal, `stopped before the end: ${view.name} is unchanged`);
    return 1;
  }
}

/** The same for analytics: its tables are rebuilt in a second database, which then replaces the old one. */
export async function analyticsRebuild(
  args: ParsedArguments,
  rebuild: (options: AnalyticsRebuild) => Promise<string>,
  terminal: Terminal,
): Promise<number> {
  const { signal } = terminal;
  const typed = args.values['from'];
  const from = typed === undefined ? undefined : parsePosition(positionFlag('from', typed));
  const progress = progressOn(terminal);
  const onProgress = (position: string, head: string) => progress.show(() => `analytics: at ${position} of ${head}`);
  try {
    const position = await rebuild({ from, signal, onProgress });
    progress.clear();
    await writeLine(terminal, `analytics was rebuilt, up to ${position}`);
    return 0;
  } catch (error) {
    progress.clear();
    if (!(error instanceof Error)) throw error;
    complain(terminal, signal.aborted ? 'stopped before the end: analytics is unchanged' : error.message);
    return 1;
  }
}

/** @throws UsageError */
function rebuildable(name: string): SavedView {
  const view = savedViews.find((one) => one.name === name);
  if (view !== undefined) return view;
  throw new UsageError(`there is no view "${name}" that can be rebuilt; "chancery views list" shows the names`);
}

/** @param by the user who skips the event */
export async function viewsSkip(
  args: ParsedArguments,
  log: EventLog,
  dataDir: string,
  by: string,
  terminal: Terminal,
): Promise<number> {
  const name = args.operands[0] ?? '';
  if (name !== analyticsView.name && !savedViews.some((view) => view.name === name)) {
    throw new UsageError(`there is no view "${name}"; "chancery views list" shows the names`);
  }
  const reason = args.values['reason']?.trim() ?? '';
  if (reason === '') throw new UsageError('--reason TEXT is required: it is recorded in the log');
  const typed = args.values['position'];
  if (typed === undefined)
    throw new UsageError('--position POSITION is required: the error that stopped the view names it');
  const position = positionFlag('position', typed);
  const event = await eventAt(log, position);
  if (event === undefined) {
    complain(terminal, `the log has no event ${position}`);
    return 1;
  }
  if ((await skippedEvents(log)).some((one) => one.view === name && one.position === position)) {
    await writeLine(terminal, `${name} already skips event ${position}`);
    return 0;
  }
  const snapshot = savedSnapshots(viewsFile(dataDir)).get(name);
  if (snapshot !== undefined && snapshot.position >= position) {
    complain(terminal, `${name} has already processed event ${position}: it is at ${snapshot.position}`);
    return 1;
  }
  const { type: eventType, stream: eventStream } = event;
  const skipped = viewEventSkipped.create(
    { view: name, position, eventType, eventStream, reason, by },
    { actor: 'system' },
  );
  await log.append([{ stream: skippedStream, events: [skipped], expectedRevision: 'any' }]);
  await writeLine(
    terminal,
    `${name} continues without event ${position} (${eventType} of ${eventStream}) from its next start`,
  );
  return 0;
}

/** @throws UsageError */
function positionFlag(flag: string, typed: string): Position {
  try {
    return formatPosition(parsePosition(typed));
  } catch (error) {
    if (error instanceof InvalidPosition) throw new UsageError(`--${flag}: ${error.message}`);
    throw error;
  }
}

async function eventAt(log: EventLog, position: Position): Promise<RecordedEvent | undefined> {
  for await (const event of log.readAll({ after: positionBefore(position), maxCount: 1 })) {
    return event.position === position ? event : undefined;
  }
  return undefined;
}
