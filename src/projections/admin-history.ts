/**
 * The history of one object for administrators: actor, time, value before and after. It is folded from the object's own
 * stream, whose events each carry the complete new value of the members that they change. Secrets are masked, also
 * their hashes and ciphertexts: a history has more readers than the object itself.
 */
import { auditRead } from '../events/catalogue/access.ts';
import { cachePurged } from '../events/catalogue/cache.ts';
import { viewEventSkipped, viewRebuildRequested } from '../events/catalogue/gateway.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import { isObject } from '../json/is-object.ts';
import { subjectOf, subjectText } from './admin-subjects.ts';

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
