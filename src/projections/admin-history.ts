/**
 * The changes of one thing as an administrator reads them: who, when, from what to what. Folded from the thing's own
 * stream, of events that each carry the whole new value of what they change. Secrets are masked, also where they are
 * only hashes or ciphertexts: a history is read by more people than the thing itself.
 */
import { auditRead } from '../events/catalogue/audit.ts';
import type { Position, RecordedEvent } from '../events/event.ts';
import { isObject } from '../json/is-object.ts';
import { subjectOf, subjectText } from './admin-subjects.ts';

/** What was known of the thing; null when it was not there. */
export type Value = Readonly<Record<string, unknown>> | null;

export interface Change {
  readonly position: Position;
  readonly revision: string;
  /** ISO 8601. */
  readonly at: string;
  readonly actor: string;
  /** Of who did it, not of what was changed. */
  readonly user_path: string | null;
  readonly request_id: string | null;
  readonly subject: string;
  readonly type: string;
  readonly before: Value;
  readonly after: Value;
  /** The members that are not the same before and after. */
  readonly changed: readonly string[];
}

/**
 * Which part of its stream's subject an event is about: a user path may have a budget for each period, and each of them
 * has a history of its own.
 */
export function changedPartOf({ type, data }: Pick<RecordedEvent, 'type' | 'data'>): string {
  const isOfPeriod = type.startsWith('budget.') || type.startsWith('rate_limit.');
  return isOfPeriod && isObject(data) && 'periodSeconds' in data ? String(data.periodSeconds) : '';
}

/** The value behind an event, with its secrets. What the event says is merged into what was known. */
export function valueAfter(before: Value, event: RecordedEvent): Value {
  const { type, data } = event;
  const told = inSnakeCase(data);
  const evolve = special[type];
  if (evolve !== undefined) return evolve(before, told, event);
  return type.endsWith('removed') ? null : { ...before, ...told };
}

/** Something that only happened: nothing was there before it, and the next one does not follow from it. */
export function isNote({ type }: Pick<RecordedEvent, 'type'>): boolean {
  return type === auditRead.type;
}

type Evolve = (before: Value, told: Readonly<Record<string, unknown>>, event: RecordedEvent) => Value;

const wasReset: Evolve = (before, _told, { at }) =>
  before === null ? null : { ...before, last_reset_at: new Date(at).toISOString() };

/** The events that say something else than members of the value. */
const special: Readonly<Record<string, Evolve>> = {
  'key.created': (_before, told) => ({ ...told, active: true }),
  'key.deactivated': (before) => ({ ...before, active: false }),
  'key.reactivated': (before) => ({ ...before, active: true }),
  // What it was before says nothing of it: the event is the whole of it, and members that are left out are gone.
  'user.policy_set': (_before, told) => told,
  'virtual_model.saved': (_before, told) => told,
  'provider_credential.saved': (_before, told) => told,
  'price.override_set': (_before, told) => told,
  'budget.set': (before, told) => ({ ...before, ...told, amount: dollars(told['amount']) }),
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

/** The data of an event in the words of the admin API. */
function inSnakeCase(data: unknown): Readonly<Record<string, unknown>> {
  return isObject(data) ? renamed(data, snakeCase, (_name, member) => member) : {};
}

function snakeCase(name: string): string {
  return /^[a-z][A-Za-z0-9]*$/.test(name) ? name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`) : name;
}

const MASK = '***';
/** Names of members whose values are secrets, or were made of them. */
const SECRET = /secret|hash|cipher|sealed|^api_keys?$|password|nonce/;

function shown(value: Value): Value {
  const same = (name: string) => name;
  return value === null ? null : renamed(value, same, (name, member) => (SECRET.test(name) ? masked(member) : member));
}

/** That there is one, and of a list how many, may be known. */
function masked(secret: unknown): unknown {
  if (Array.isArray(secret)) return secret.map(masked);
  return typeof secret === 'string' && secret !== '' ? MASK : secret;
}

/** The object with other names and members, as deep as it goes. */
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
