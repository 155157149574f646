/** Admin history in pages: of one subject from its own stream, of all subjects through the journal. */
import type { Position, RecordedEvent, StreamName } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { type Change, changedPartOf, changeOf, isNote, type Value, valueAfter } from './admin-history.ts';
import { type AdminJournal, type JournalPageQuery, journalPage } from './admin-journal.ts';
import { type Subject, streamOf } from './admin-subjects.ts';
import { eventsAt } from './fold-as-of.ts';

export interface HistoryQuery extends JournalPageQuery {
  /** Only changes by this actor. */
  readonly actor?: string | undefined;
}

/** Entries of the journal that are read at once to find those of an actor. */
const SCANNED = 500;

export interface HistoryPage {
  /** Newest first. */
  readonly changes: readonly Change[];
  readonly hasMore: boolean;
}

type HistorySource = Pick<EventLog, 'readAll' | 'readStream'>;

/** Reads the whole stream and keeps only the page. Undefined when the subject has no events. */
export async function subjectHistory(
  log: HistorySource,
  subject: Subject,
  query: HistoryQuery,
): Promise<HistoryPage | undefined> {
  const { limit, before, after } = query;
  const oldestFirst = after !== undefined && before === undefined;
  const found: Change[] = [];
  let known = false;
  for await (const { event, from, to } of changesOf(log, streamOf(subject))) {
    known = true;
    if (!isInRange(event, query)) continue;
    found.push(changeOf(event, from, to));
    if (found.length <= limit + 1) continue;
    if (oldestFirst) break;
    found.shift();
  }
  if (!known) return undefined;
  const hasMore = found.length > limit;
  const page = oldestFirst ? found.slice(0, limit) : found.slice(-limit);
  return { changes: page.reverse(), hasMore };
}

/** The present value of a subject without parts, with its secrets. Undefined when the subject has no events. */
export async function knownOf(log: HistorySource, subject: Subject): Promise<Value | undefined> {
  let value: Value | undefined;
  for await (const { to } of changesOf(log, streamOf(subject))) value = to;
  return value;
}

/** Every administrator's change. The journal must have processed the log to its end. */
export async function allHistory(log: HistorySource, journal: AdminJournal, query: HistoryQuery): Promise<HistoryPage> {
  const { positions, hasMore } = await positionsOf(log, journal, query);
  const wanted = new Map<StreamName, Map<bigint, Position>>();
  for await (const { stream, revision, position } of eventsAt(log, positions.toReversed())) {
    const ofStream = wanted.get(stream) ?? new Map<bigint, Position>();
    wanted.set(stream, ofStream.set(revision, position));
  }
  const changes = new Map<Position, Change>();
  for (const [stream, revisions] of wanted) {
    let left = revisions.size;
    for await (const { event, from, to } of changesOf(log, stream)) {
      const position = revisions.get(event.revision);
      if (position === undefined) continue;
      changes.set(position, changeOf(event, from, to));
      if (--left === 0) break;
    }
  }
  return { changes: positions.flatMap((position) => changes.get(position) ?? []), hasMore };
}

/** A page of positions, newest first. The changes of one actor are found by reading the journal's events. */
async function positionsOf(log: Pick<EventLog, 'readAll'>, journal: AdminJournal, query: HistoryQuery) {
  const { actor, limit } = query;
  if (actor === undefined) return journalPage(journal, query);
  const oldestFirst = query.after !== undefined && query.before === undefined;
  let { before, after } = query;
  let found: Position[] = [];
  for (let hasMore = true; hasMore && found.length <= limit; ) {
    const page = journalPage(journal, { ...query, before, after, limit: SCANNED });
    const by = new Set<Position>();
    for await (const event of eventsAt(log, page.positions.toReversed())) {
      if (event.context.actor === actor) by.add(event.position);
    }
    const matching = page.positions.filter((position) => by.has(position));
    found = oldestFirst ? [...matching, ...found] : [...found, ...matching];
    if (oldestFirst) after = page.positions[0] ?? after;
    else before = page.positions.at(-1) ?? before;
    hasMore = page.hasMore;
  }
  const positions = oldestFirst ? found.slice(-limit) : found.slice(0, limit);
  return { positions, hasMore: found.length > limit };
}

async function* changesOf(
  log: Pick<EventLog, 'readStream'>,
  stream: StreamName,
): AsyncGenerator<{ event: RecordedEvent; from: Value; to: Value }> {
  const values = new Map<string, Value>();
  for await (const event of log.readStream(stream)) {
    const part = changedPartOf(event);
    const from = isNote(event) ? null : (values.get(part) ?? null);
    const to = valueAfter(from, event);
    values.set(part, to);
    yield { event, from, to };
  }
}

function isInRange({ position, at, context }: RecordedEvent, query: HistoryQuery): boolean {
  const { before, after, from, to, actor } = query;
  if (actor !== undefined && context.actor !== actor) return false;
  if (before !== undefined && position >= before) return false;
  if (after !== undefined && position <= after) return false;
  return (from === undefined || at >= from) && (to === undefined || Math.floor(at) <= to);
}
