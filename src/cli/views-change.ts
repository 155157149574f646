/** `chancery views rebuild <name>` and `chancery views skip <name>`: for when no gateway runs. */
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
import { skippedEvents } from '../projections/skipped-events.ts';
import { saveBound } from '../projections/snapshot-basis.ts';
import { openViewStore, savedSnapshots, viewsFile } from '../projections/view-store.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import type { AnalyticsRebuild } from './program-parts.ts';
import { progressOn } from './progress.ts';
import { count } from './quantity.ts';
import { complain, type Terminal, writeLine } from './terminal.ts';
import { analyticsView } from './views-status.ts';

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
