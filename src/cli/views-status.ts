/** `chancery views list` and `chancery views status` */

import { InvalidPosition, parsePosition } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { savedViews } from '../projections/saved-views.ts';
import { type Skipped, skippedEvents } from '../projections/skipped-events.ts';
import { type SavedSnapshot, savedSnapshots, viewsFile } from '../projections/view-store.ts';
import { type ParsedArguments, twoColumns } from './command.ts';
import { bytes, count } from './quantity.ts';
import { type Terminal, writeLine } from './terminal.ts';

export const analyticsView = {
  name: 'analytics',
  about: 'all events, in ClickHouse; written by the analytics process',
} as const;

/** The position that the analytics process has reached, or why it is not known. */
export type AnalyticsProgress = { readonly position: number } | { readonly unknown: string };

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
