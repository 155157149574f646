/** What may happen to a managed key, decided from what has happened to it. Pure. */
import {
  keyAllowedModelsChanged,
  keyCreated,
  keyDashboardAccessChanged,
  keyDeactivated,
  keyLabelsChanged,
  keyUserPathHeaderChanged,
} from '../../events/catalogue/key.ts';
import { type EventContext, type NewEvent, type StreamName, streamName, type UserPath } from '../../events/event.ts';
import type { Authority } from '../access/authority.ts';
import { covers } from '../access/selector.ts';
import { bindingWord, type Words, withWord } from '../access/words.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { subtreeOf } from '../visibility.ts';

export type KeyState = { readonly status: 'absent' } | PresentKey;

interface PresentKey {
  readonly status: 'active' | 'deactivated';
  readonly labels: readonly string[];
  readonly allowedModels: readonly string[];
  readonly dashboardAccess: boolean;
  readonly userPathHeader: boolean;
  /** What each administrator set last. */
  readonly words: {
    readonly labels: Words<readonly string[]>;
    readonly allowedModels: Words<readonly string[]>;
    readonly userPathHeader: Words<boolean>;
  };
}

export function keyStream(id: string): StreamName {
  return streamName('key', id);
}

/** What a new key is given. */
export interface NewKey {
  readonly name: string;
  readonly description: string | undefined;
  readonly userPath: UserPath | undefined;
  readonly labels: readonly string[];
  readonly allowedModels: readonly string[];
  readonly dashboardAccess: boolean;
  /** Whether a request header may name the user path. Of a key that is bound to a path no header does. */
  readonly userPathHeader: boolean;
  readonly secretHash: string;
  readonly lastCharacters: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number | undefined;
}

export type KeyCommand = { readonly id: string; readonly context: EventContext; readonly by: KeyAdministrator } & (
  | ({ readonly kind: 'create' } & NewKey)
  | { readonly kind: 'set labels'; readonly labels: readonly string[] }
  | { readonly kind: 'rename label'; readonly from: string; readonly to: string }
  | { readonly kind: 'set allowed models'; readonly allowedModels: readonly string[] }
  | { readonly kind: 'set dashboard access'; readonly dashboardAccess: boolean }
  | { readonly kind: 'set user path header'; readonly userPathHeader: boolean }
  | { readonly kind: 'deactivate' }
);

/** Who makes a key or changes one. */
export interface KeyAdministrator {
  readonly authority: Authority;
  /** The key that asks; undefined for the master key. */
  readonly key: AdministeringKey | undefined;
}

/** What a new key may not go beyond. */
export interface AdministeringKey {
  readonly id: string;
  readonly userPath: UserPath | undefined;
  readonly allowedModels: readonly string[];
  readonly userPathHeader: boolean;
  /** Milliseconds since the epoch; undefined: for ever. */
  readonly expiresAt: number | undefined;
}

export const keyDecider: Decider<KeyState, KeyCommand> = { initial: { status: 'absent' }, decide, evolve };

function decide(command: KeyCommand, state: KeyState): readonly NewEvent[] | Refusal {
  const { id, context } = command;
  if (command.kind === 'create') {
    if (state.status !== 'absent') return refusals.changedMeanwhile(id);
    const beyond = command.by.key === undefined ? undefined : beyondCreator(command, command.by.key);
    if (beyond !== undefined) return beyond;
    const { kind, context: _, by: __, userPathHeader, ...facts } = command;
    const header = userPathHeader ? {} : { userPathHeader };
    const lists = { labels: [...facts.labels], allowedModels: [...facts.allowedModels] };
    return [keyCreated.create({ ...facts, ...lists, ...header }, context)];
  }
  if (state.status === 'absent') return keyNotFound(id);
  switch (command.kind) {
    case 'set labels':
      return labelled(command.labels, state, command);
    case 'rename label': {
      const { from, to } = command;
      return labelled([...new Set(state.labels.map((label) => (label === from ? to : label)))], state, command);
    }
    case 'set allowed models': {
      const { allowedModels } = command;
      if (isSame(allowedModels, state.allowedModels)) return [];
      const refused = widerThanAllowed(allowedModels, state, command);
      if (refused !== undefined) return refused;
      return [keyAllowedModelsChanged.create({ allowedModels: [...allowedModels] }, context)];
    }
    case 'set dashboard access': {
      const { dashboardAccess } = command;
      if (dashboardAccess === state.dashboardAccess) return [];
      return [keyDashboardAccessChanged.create({ dashboardAccess }, context)];
    }
    case 'set user path header': {
      const { userPathHeader } = command;
      if (userPathHeader === state.userPathHeader) return [];
      if (userPathHeader && bindingOwn(state.words.userPathHeader, command) === false) {
        return refusals.setByHigherAdministrator(`The user path header of key ${id}`, 'false');
      }
      return [keyUserPathHeaderChanged.create({ userPathHeader }, context)];
    }
    case 'deactivate':
      return state.status === 'deactivated' ? [] : [keyDeactivated.create({}, context)];
  }
}

/** The same for a key that is not there and for one that the caller may not know of. */
export function keyNotFound(id: string): Refusal {
  return refusals.notFound('API key', id);
}

/** What a higher administrator set on the very key that asks. */
function bindingOwn<Value>(words: Words<Value>, { id, by }: Pick<KeyCommand, 'id' | 'by'>): Value | undefined {
  return by.key?.id === id ? bindingWord(words, by.authority) : undefined;
}

/** A label may stand under a budget: those that a higher administrator gave the key that asks stay on it. */
function labelled(
  labels: readonly string[],
  { labels: before, words }: PresentKey,
  command: KeyCommand,
): NewEvent[] | Refusal {
  if (isSame(labels, before)) return [];
  const bound = bindingOwn(words.labels, command) ?? [];
  if (!bound.every((label) => labels.includes(label))) {
    return refusals.setByHigherAdministrator(`The list of labels of key ${command.id}`, JSON.stringify(bound));
  }
  return [keyLabelsChanged.create({ labels: [...labels] }, command.context)];
}

/**
 * A key never gives more models than it has itself. It may make a list tighter, and give back what a higher
 * administrator gave.
 */
function widerThanAllowed(
  asked: readonly string[],
  { allowedModels, words }: PresentKey,
  { id, by: { key, authority } }: KeyCommand,
): Refusal | undefined {
  if (key === undefined || covers(allowedModels, asked)) return undefined;
  const bound = bindingWord(words.allowedModels, authority);
  if (bound !== undefined && covers(bound, asked)) return undefined;
  if (key.id !== id) return covers(key.allowedModels, asked) ? undefined : beyondModels(key);
  return bound === undefined
    ? beyondModels(key)
    : refusals.setByHigherAdministrator(`The list of models of key ${id}`, JSON.stringify(bound));
}

/** In what the new key would go beyond the one that makes it. */
function beyondCreator(asked: NewKey, creator: AdministeringKey): Refusal | undefined {
  const { allowedModels, expiresAt, userPathHeader, userPath } = asked;
  const scope = subtreeOf(creator);
  if (scope !== undefined && userPath !== scope && userPath?.startsWith(`${scope}/`) !== true) {
    return refusals.userPathOutOfScope(userPath ?? '/', scope, 'user_path');
  }
  if (!covers(creator.allowedModels, allowedModels)) return beyondModels(creator);
  if (creator.expiresAt !== undefined && (expiresAt === undefined || expiresAt > creator.expiresAt)) {
    return refusals.exceedsOwnAccess('expires_at', `it expires at ${new Date(creator.expiresAt).toISOString()}`);
  }
  return userPathHeader && !creator.userPathHeader
    ? refusals.exceedsOwnAccess('user_path_header', 'no header names its user path')
    : undefined;
}

function beyondModels({ allowedModels }: AdministeringKey): Refusal {
  return refusals.exceedsOwnAccess('allowed_models', `it has ${JSON.stringify(allowedModels)}`);
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((entry, place) => entry === other[place]);
}

function evolve(state: KeyState, { type, data, context: { actor } }: DecidedEvent): KeyState {
  if (type === keyCreated.type) {
    const { labels, allowedModels, dashboardAccess, userPathHeader = true } = keyCreated.data.parse(data);
    const words = {
      labels: withWord([], actor, labels),
      allowedModels: withWord([], actor, allowedModels),
      userPathHeader: withWord([], actor, userPathHeader),
    };
    return { status: 'active', labels, allowedModels, dashboardAccess, userPathHeader, words };
  }
  if (state.status === 'absent') return state;
  const { words } = state;
  switch (type) {
    case keyLabelsChanged.type: {
      const { labels } = keyLabelsChanged.data.parse(data);
      return { ...state, labels, words: { ...words, labels: withWord(words.labels, actor, labels) } };
    }
    case keyAllowedModelsChanged.type: {
      const { allowedModels } = keyAllowedModelsChanged.data.parse(data);
      const said = withWord(words.allowedModels, actor, allowedModels);
      return { ...state, allowedModels, words: { ...words, allowedModels: said } };
    }
    case keyDashboardAccessChanged.type:
      return { ...state, dashboardAccess: keyDashboardAccessChanged.data.parse(data).dashboardAccess };
    case keyUserPathHeaderChanged.type: {
      const { userPathHeader } = keyUserPathHeaderChanged.data.parse(data);
      const said = withWord(words.userPathHeader, actor, userPathHeader);
      return { ...state, userPathHeader, words: { ...words, userPathHeader: said } };
    }
    case keyDeactivated.type:
      return { ...state, status: 'deactivated' };
    default:
      return state;
  }
}
