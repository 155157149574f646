/**
 * The history of one object for administrators: actor, time, value before and after. It is folded from the object's own
 * stream, whose events each carry the complete new value of the members that they change. Secrets are masked, also
 * their hashes and ciphertexts: a history has more readers than the object itself.
 */
import { auditRead } from '../events/catalogue/access.ts';
import { cachePurged } from '../events/catalogue/cache.ts';
import { viewEventSkipped, viewRebuildRequested } from '../events/catalogue/gateway.ts';
import {
  type Position,
  parsePosition,
  positionBefore,
  type RecordedEvent,
  type StreamName,
  streamName,
} from '../events/event.ts';
import { CompiledFilter, type EventLog } from '../events/log.ts';
import { isObject } from '../json/is-object.ts';
import {
  type AdminJournal,
  familyOf,
  historySubjects,
  type JournalPageQuery,
  journalPage,
  positionsUntil,
} from './admin-journal.ts';
import type { Projection } from './projection.ts';

// A read model at an earlier position: the same fold, over the events up to that position.

/** Changes that are no further apart are read together: the events between them cost less than another read. */
const GAP = 256;

/**
 * The state at `until`, that position included. Only the changes in the journal are read, so the projection must be one
 * of administrators' changes, and the journal must have processed `until`.
 */
export async function foldAsOf<State>(
  projection: Projection<State>,
  log: Pick<EventLog, 'readAll'>,
  journal: AdminJournal,
  until: Position,
): Promise<State> {
  const families = new Set((projection.filter.types ?? []).map((type) => familyOf({ type })));
  const wanted = new CompiledFilter(projection.filter);
  let state = projection.initial();
  for await (const event of eventsAt(log, journal, positionsUntil(journal, [...families], until), families)) {
    if (wanted.acceptsType(event.type)) state = projection.apply(state, event);
  }
  return state;
}

/**
 * The changes at these positions, in the log's order.
 * @param positions ascending; all positions in the journal between the first and the last, of these families
 * @param families default: all
 */
async function* eventsAt(
  log: Pick<EventLog, 'readAll'>,
  journal: AdminJournal,
  positions: readonly Position[],
  families?: ReadonlySet<string>,
): AsyncGenerator<RecordedEvent> {
  const types = journal.types.filter((type) => families?.has(familyOf({ type })) !== false);
  for (const { first, last } of runs(positions)) {
    for await (const event of log.readAll({ after: positionBefore(first), filter: { types } })) {
      yield event;
      // The last one passes the filter, so nothing behind it is read.
      if (event.position >= last) break;
    }
  }
}

/** The positions as ranges that are read together. */
function* runs(positions: readonly Position[]): Generator<{ first: Position; last: Position }> {
  let first: Position | undefined;
  let last: Position | undefined;
  for (const position of positions) {
    if (first !== undefined && last !== undefined && parsePosition(position) - parsePosition(last) > GAP) {
      yield { first, last };
      first = position;
    }
    first ??= position;
    last = position;
  }
  if (first !== undefined && last !== undefined) yield { first, last };
}

/** Admin history in pages: of one subject from its own stream, of all subjects through the journal. */
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
  for await (const { stream, revision, position } of eventsAt(log, journal, positions.toReversed())) {
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
    for await (const event of eventsAt(log, journal, page.positions.toReversed())) {
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

// Names of the subjects in the admin history: `key:<id>`, `user:<path>`, …

type SubjectKind = keyof typeof historySubjects;

export interface Subject {
  readonly kind: SubjectKind;
  readonly id: string;
}

export const subjectKinds = Object.keys(historySubjects) as readonly SubjectKind[];

/** Undefined when it names no subject. */
export function parseSubject(text: string): Subject | undefined {
  const colon = text.indexOf(':');
  const kind = subjectKinds.find((one) => one === text.slice(0, colon));
  const id = text.slice(colon + 1);
  return kind === undefined || id === '' ? undefined : { kind, id };
}

export function subjectText({ kind, id }: Subject): string {
  return `${kind}:${id}`;
}

export function streamOf({ kind, id }: Subject): StreamName {
  return streamName(historySubjects[kind].category, id);
}

/** The inverse of `streamOf`. Undefined for streams that no administrator changes. */
export function subjectOf(stream: StreamName): Subject | undefined {
  for (const kind of subjectKinds) {
    const prefix = `${historySubjects[kind].category}-`;
    if (stream.startsWith(prefix)) return { kind, id: stream.slice(prefix.length) };
  }
  return undefined;
}

/** The object before or after a change; null when it does not exist. */
export type Value = Readonly<Record<string, unknown>> | null;

export interface Change {
  readonly position: Position;
  readonly revision: string;
  /** ISO 8601. */
  readonly at: string;
  readonly actor: string;
  /** Of the actor, not of the changed object. */
  readonly user_path: string | null;
  readonly request_id: string | null;
  readonly subject: string;
  readonly type: string;
  readonly before: Value;
  readonly after: Value;
  /** The members that differ before and after. */
  readonly changed: readonly string[];
}

/**
 * The part of the stream's subject that an event changes: a user path may have a budget for each period, and each
 * budget has its own history.
 */
export function changedPartOf({ type, data }: Pick<RecordedEvent, 'type' | 'data'>): string {
  const isOfPeriod = type.startsWith('budget.') || type.startsWith('rate_limit.');
  return isOfPeriod && isObject(data) && 'periodSeconds' in data ? String(data.periodSeconds) : '';
}

/** The value after an event, with its secrets. The event's data is merged into the earlier value. */
export function valueAfter(before: Value, event: RecordedEvent): Value {
  const { type, data } = event;
  const changes = inSnakeCase(data);
  const evolve = special[type];
  if (evolve !== undefined) return evolve(before, changes, event);
  return type.endsWith('removed') ? null : { ...before, ...changes };
}

const notes: ReadonlySet<string> = new Set(
  [auditRead, cachePurged, viewEventSkipped, viewRebuildRequested].map(({ type }) => type),
);

/** An event without a value: it has none before it, and the next event does not depend on it. */
export function isNote({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return notes.has(type);
}

type Evolve = (before: Value, changes: Readonly<Record<string, unknown>>, event: RecordedEvent) => Value;

const wasReset: Evolve = (before, _changes, { at }) =>
  before === null ? null : { ...before, last_reset_at: new Date(at).toISOString() };

/** The events whose data are not members of the value. */
const special: Readonly<Record<string, Evolve>> = {
  'key.created': (_before, changes) => ({ ...changes, active: true }),
  'key.deactivated': (before) => ({ ...before, active: false }),
  'key.reactivated': (before) => ({ ...before, active: true }),
  // The event contains the complete value: members that it leaves out are removed.
  'user.policy_set': (_before, changes) => changes,
  'virtual_model.saved': (_before, changes) => changes,
  'guardrail.saved': (_before, changes) => changes,
  'workflow.created': (_before, changes) => ({ ...changes, active: true }),
  'workflow.deactivated': (before) => ({ ...before, active: false }),
  'provider_credential.saved': (_before, changes) => changes,
  'mcp_server.saved': (_before, changes) => changes,
  'price.override_set': (_before, changes) => changes,
  'budget.set': (before, changes) => ({ ...before, ...changes, amount: dollars(changes['amount']) }),
  'budget.reset': wasReset,
  'rate_limit.reset': wasReset,
  'provider.models_listed': (before, { models }) => ({ ...before, models: ids(models) }),
  'provider.became_available': (before) => ({ ...before, available: true }),
  'provider.became_unavailable': (before, { message }) => ({ ...before, available: false, message }),
  'provider.capability_learned': (before, { capability, supported }) => ({
    ...before,
    [String(capability)]: supported,
  }),
  'provider.circuit_changed': (before, { state }) => ({ ...before, circuit: state }),
};

/** The change that the event made, its secrets masked. */
export function changeOf(event: RecordedEvent, before: Value, after: Value): Change {
  const { position, revision, at, context, type, stream } = event;
  const subject = subjectOf(stream);
  return {
    position,
    revision: String(revision),
    at: new Date(at).toISOString(),
    actor: context.actor,
    user_path: context.userPath ?? null,
    request_id: context.requestId ?? null,
    subject: subject === undefined ? stream : subjectText(subject),
    type,
    before: shown(before),
    after: shown(after),
    changed: changedMembers(before, after),
  };
}

function changedMembers(before: Value, after: Value): string[] {
  const names = new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})]);
  return [...names].filter((name) => JSON.stringify(before?.[name]) !== JSON.stringify(after?.[name])).sort();
}

/** The data of an event with the names of the admin API. */
function inSnakeCase(data: unknown): Readonly<Record<string, unknown>> {
  return isObject(data) ? renamed(data, snakeCase, (_name, member) => member) : {};
}

function snakeCase(name: string): string {
  return /^[a-z][A-Za-z0-9]*$/.test(name) ? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : name;
}

const MASK = '***';
/** Names of members whose values are secrets or derived from secrets. */
const SECRET = /secret|hash|cipher|sealed|^api_keys?$|password|nonce/;

function shown(value: Value): Value {
  const same = (name: string) => name;
  return value === null ? null : renamed(value, same, (name, member) => (SECRET.test(name) ? masked(member) : member));
}

/** The masked value shows whether a secret is set, and for a list how many. */
function masked(secret: unknown): unknown {
  if (Array.isArray(secret)) return secret.map(masked);
  if (isObject(secret)) return Object.fromEntries(Object.entries(secret).map(([name, one]) => [name, masked(one)]));
  return typeof secret === 'string' && secret !== '' ? MASK : secret;
}

/** The object with renamed and converted members, at every depth. */
function renamed(
  object: object,
  rename: (name: string) => string,
  member: (name: string, value: unknown) => unknown,
): Record<string, unknown> {
  const inside = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(inside);
    return isObject(value) ? renamed(value, rename, member) : value;
  };
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [rename(name), inside(member(name, value))]));
}

/** Converts nano-dollars to dollars, the unit of amounts in the admin API. Other values are returned unchanged. */
function dollars(nanos: unknown): unknown {
  return typeof nanos === 'string' ? Number(nanos) / 1e9 : nanos;
}

function ids(models: unknown): unknown {
  return Array.isArray(models) ? models.map((model: { id?: unknown }) => model.id) : models;
}
