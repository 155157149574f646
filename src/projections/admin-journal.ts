/**
 * Positions and times of the administrators' changes in the log. With it, the state at a past time is folded from its
 * own few events, and the log between them is not read.
 */
import { type EpochMs, formatPosition, type Position, parsePosition, type RecordedEvent } from '../events/event.ts';
import type { Projection } from './projection.ts';

/** The changes of one family (`key`, `user`, `budget`, …), oldest first. Both lists are of one length. */
interface Chapter {
  /** Positions, as numbers: tens of thousands of them take little memory. */
  readonly places: number[];
  /**
   * Whole milliseconds since the epoch. Never less than the one before, even where the clock was set back: the order
   * of the log is the order in which things happened.
   */
  readonly times: number[];
}

export interface AdminJournal {
  /** Of the changes that it has. */
  readonly types: readonly string[];
  readonly chapters: Map<string, Chapter>;
  /** Of the newest change of all. */
  newest: number;
}

/** A change in the journal. */
export interface JournalEntry {
  readonly position: Position;
  readonly at: EpochMs;
}

/** A kind of subject in the history: the category of its streams, and the types of the changes by administrators. */
interface SubjectKindFacts {
  readonly category: string;
  readonly types: readonly string[];
}

export const historySubjects = {
  key: { category: 'key', types: ['key.'] },
  user: { category: 'user', types: ['user.'] },
  'virtual-model': { category: 'virtual-model', types: ['virtual_model.'] },
  workflow: { category: 'workflow', types: ['workflow.'] },
  // Only definitions: verdicts about requests are no changes by administrators.
  guardrail: { category: 'guardrail', types: ['guardrail.saved', 'guardrail.removed'] },
  price: { category: 'price', types: ['price.'] },
  budget: { category: 'budget', types: ['budget.'] },
  'rate-limit': { category: 'rate-limit', types: ['rate_limit.'] },
  'mcp-tools': { category: 'mcp-tools', types: ['mcp_tool.'] },
  credential: { category: 'credential', types: ['provider_credential.'] },
  // Authorizations at servers are renewed by the gateway, so they are no changes by administrators.
  'mcp-server': { category: 'mcp-server', types: ['mcp_server.'] },
  // Of the response cache only removals: the others are of requests.
  settings: { category: 'settings', types: ['budget_settings.', 'tagging.', 'cache.purged'] },
  // Of a provider only its configuration: failures and recoveries are not changes by administrators.
  provider: { category: 'provider', types: ['provider.configured', 'provider.removed'] },
  view: { category: 'views', types: ['view.'] },
  audit: { category: 'audit', types: [] },
} satisfies Record<string, SubjectKindFacts>;

export const adminJournal = journalOf(Object.values(historySubjects));

/** The journal of the changes of these subjects. */
export function journalOf(subjects: readonly Pick<SubjectKindFacts, 'types'>[]): Projection<AdminJournal> {
  const types = subjects.flatMap((subject) => subject.types);
  return {
    name: 'admin-journal',
    version: 2,
    filter: { types },
    initial: () => ({ types, chapters: new Map(), newest: 0 }),
    apply(journal, event) {
      const family = familyOf(event);
      let chapter = journal.chapters.get(family);
      if (chapter === undefined) {
        chapter = { places: [], times: [] };
        journal.chapters.set(family, chapter);
      }
      journal.newest = Math.max(journal.newest, Math.floor(event.at));
      chapter.places.push(parsePosition(event.position));
      chapter.times.push(journal.newest);
      return journal;
    },
    save: ({ chapters, newest }) => ({ chapters, newest }),
    load: (saved) => ({ ...(saved as AdminJournal), types }),
  };
}

/** `key` of `key.created`. */
export function familyOf({ type }: Pick<RecordedEvent, 'type'>): string {
  return type.slice(0, type.indexOf('.'));
}

/** The newest change that was made at that time or before it; undefined when there was none yet. */
export function newestBy(journal: AdminJournal, atMs: number): JournalEntry | undefined {
  let newest: JournalEntry | undefined;
  for (const chapter of journal.chapters.values()) {
    const entry = entryAt(chapter, countWhile(chapter.times, (time) => time <= atMs) - 1);
    if (entry !== undefined && (newest === undefined || entry.position > newest.position)) newest = entry;
  }
  return newest;
}

/** Positions of the changes of these families up to and including `until`, in the log's order. */
export function positionsUntil(journal: AdminJournal, families: readonly string[], until: Position): Position[] {
  const found = families.flatMap((family) => {
    const places = journal.chapters.get(family)?.places ?? [];
    return places.slice(0, countUpTo(places, until)).map(formatPosition);
  });
  return families.length > 1 ? found.sort() : found;
}

export interface JournalPageQuery {
  readonly limit: number;
  /** Only changes before this position. */
  readonly before?: Position | undefined;
  /** Only changes after this position: the ones nearest to it. */
  readonly after?: Position | undefined;
  /** Milliseconds since the epoch, both inclusive. */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** A page of all changes, newest first. */
export function journalPage(
  journal: AdminJournal,
  query: JournalPageQuery,
): { positions: Position[]; hasMore: boolean } {
  const { limit, before, after, from = 0, to = Number.POSITIVE_INFINITY } = query;
  // One entry more than the limit per family is enough to set `hasMore`; the other entries are not read.
  const found = [...journal.chapters.values()].flatMap(({ places, times }) => {
    const begin = Math.max(
      countWhile(times, (time) => time < from),
      after === undefined ? 0 : countUpTo(places, after),
    );
    const end = Math.min(
      countWhile(times, (time) => time <= to),
      before === undefined ? places.length : countBelow(places, before),
    );
    if (end <= begin) return [];
    const slice = oldestFirst(query)
      ? places.slice(begin, Math.min(end, begin + limit + 1))
      : places.slice(Math.max(begin, end - limit - 1), end);
    return slice.map(formatPosition);
  });
  found.sort();
  const positions = oldestFirst(query) ? found.slice(0, limit) : found.slice(-limit);
  return { positions: positions.reverse(), hasMore: found.length > limit };
}

/** With `after` alone the page begins there; otherwise it ends at the newest change. */
function oldestFirst({ before, after }: JournalPageQuery): boolean {
  return after !== undefined && before === undefined;
}

function entryAt({ places, times }: Chapter, index: number): JournalEntry | undefined {
  const place = places[index];
  const at = times[index];
  return place === undefined || at === undefined ? undefined : { position: formatPosition(place), at };
}

function countUpTo(places: readonly number[], position: Position): number {
  return countWhile(places, (place) => formatPosition(place) <= position);
}

function countBelow(places: readonly number[], position: Position): number {
  return countWhile(places, (place) => formatPosition(place) < position);
}

/** The number of elements that pass, in a list in which these come first. */
function countWhile<T>(sorted: readonly T[], passes: (one: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const one = sorted[middle];
    if (one !== undefined && passes(one)) low = middle + 1;
    else high = middle;
  }
  return low;
}
