/** Commands and events of a managed key, and their execution. */
import * as events from '../../events/catalogue/access.ts';
import {
  type EventContext,
  type NewEvent,
  type Position,
  type StreamName,
  streamName,
  type UserPath,
} from '../../events/event.ts';
import type { StreamWrite } from '../../events/log.ts';
import { bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import { isSameList } from '../canonical-json.ts';
import {
  type Decided,
  type DecidedEvent,
  type Decider,
  executeCommand,
  type Handled,
  whileConditionsChange,
} from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import {
  type ByAdministrator,
  beyondCreator,
  beyondOwnAccess,
  bindingOwnValue,
  type KeyAccess,
  type KeyAdministrator,
  laterThanAllowed,
  restrictions,
  widerThanAllowed,
} from './key-bounds.ts';

type KeyState = { readonly status: 'absent' } | PresentKey;

interface PresentKey extends KeyAccess {
  readonly status: 'active' | 'deactivated';
  readonly name: string;
  readonly description: string | undefined;
  readonly labels: readonly string[];
  readonly dashboardAccess: boolean;
  /** The last value that each administrator set. */
  readonly words: {
    readonly labels: ValuesByAdministrator<readonly string[]>;
    readonly allowedModels: ValuesByAdministrator<readonly string[]>;
    readonly allowedCidrs: ValuesByAdministrator<readonly string[]>;
    readonly userPathHeader: ValuesByAdministrator<boolean>;
    /** `null` when it never expires. */
    readonly expiresAt: ValuesByAdministrator<number | null>;
    readonly status: ValuesByAdministrator<'active' | 'deactivated'>;
  };
}

export function keyStream(id: string): StreamName {
  return streamName('key', id);
}

/** Conditions of a change of the key `id`: the key of its administrator is as it was when the change was decided. */
function unchangedAdministrator({ id, by: { key } }: ByAdministrator): StreamWrite[] {
  // A change of the own key expects its revision anyway.
  if (key === undefined || key.id === id) return [];
  return [{ stream: keyStream(key.id), events: [], expectedRevision: BigInt(key.revision) }];
}

/** The settings of a new key. For a key that is bound to a path, no request header can name the user path. */
export interface NewKey extends KeyAccess {
  readonly name: string;
  readonly description: string | undefined;
  readonly labels: readonly string[];
  readonly dashboardAccess: boolean;
  readonly secretHash: string;
  readonly lastCharacters: string;
}

export type KeyCommand = { readonly id: string; readonly context: EventContext; readonly by: KeyAdministrator } & (
  | ({ readonly kind: 'create' } & NewKey)
  | { readonly kind: 'set labels'; readonly labels: readonly string[] }
  | { readonly kind: 'rename label'; readonly from: string; readonly to: string }
  | { readonly kind: 'set allowed models'; readonly allowedModels: readonly string[] }
  | { readonly kind: 'set allowed cidrs'; readonly allowedCidrs: readonly string[] }
  | { readonly kind: 'set dashboard access'; readonly dashboardAccess: boolean }
  | { readonly kind: 'set user path header'; readonly userPathHeader: boolean }
  /** `description` keeps its value when it is left out; `null` removes it. */
  | { readonly kind: 'rename'; readonly name: string; readonly description?: string | null | undefined }
  /** Milliseconds since the epoch; undefined: never. */
  | { readonly kind: 'set expiry'; readonly expiresAt: number | undefined }
  | {
      readonly kind: 'rotate';
      readonly secretHash: string;
      readonly lastCharacters: string;
      /** Milliseconds since the epoch. The replaced secret is accepted until then. */
      readonly previousValidUntil: number;
    }
  | { readonly kind: 'deactivate' }
  | { readonly kind: 'reactivate' }
);

export const keyDecider: Decider<KeyState, KeyCommand> = {
  initial: { status: 'absent' },
  dependsOn: 'other streams',
  decide,
  evolve,
};

function decide(command: KeyCommand, state: KeyState): readonly NewEvent[] | Refusal {
  const { id, context } = command;
  if (command.kind === 'create') {
    if (state.status !== 'absent') return refusals.keyExists(id);
    const beyond = command.by.key === undefined ? undefined : beyondCreator(command, command.by.key);
    if (beyond !== undefined) return beyond;
    const { kind, context: _, by: __, userPathHeader, allowedCidrs, ...facts } = command;
    const header = userPathHeader ? {} : { userPathHeader };
    const networks = allowedCidrs.length === 0 ? {} : { allowedCidrs: [...allowedCidrs] };
    const lists = { labels: [...facts.labels], allowedModels: [...facts.allowedModels] };
    return [events.keyCreated.create({ ...facts, ...lists, ...header, ...networks }, context)];
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
      if (isSameList(allowedModels, state.allowedModels)) return [];
      const { words } = state;
      const refused = widerThanAllowed(allowedModels, state, restrictions.allowedModels, words.allowedModels, command);
      if (refused !== undefined) return refused;
      return [events.keyAllowedModelsChanged.create({ allowedModels: [...allowedModels] }, context)];
    }
    case 'set allowed cidrs': {
      const { allowedCidrs } = command;
      if (isSameList(allowedCidrs, state.allowedCidrs)) return [];
      const { words } = state;
      const refused = widerThanAllowed(allowedCidrs, state, restrictions.allowedCidrs, words.allowedCidrs, command);
      if (refused !== undefined) return refused;
      return [events.keyAllowedCidrsChanged.create({ allowedCidrs: [...allowedCidrs] }, context)];
    }
    case 'set dashboard access': {
      const { dashboardAccess } = command;
      if (dashboardAccess === state.dashboardAccess) return [];
      return [events.keyDashboardAccessChanged.create({ dashboardAccess }, context)];
    }
    case 'set user path header': {
      const { userPathHeader } = command;
      if (userPathHeader === state.userPathHeader) return [];
      if (userPathHeader && bindingOwnValue(state.words.userPathHeader, command) === false) {
        return refusals.setByHigherAdministrator(`The user path header of key ${id}`, 'false');
      }
      return [events.keyUserPathHeaderChanged.create({ userPathHeader }, context)];
    }
    case 'rename': {
      const { name } = command;
      const description = command.description === undefined ? state.description : (command.description ?? undefined);
      if (name === state.name && description === state.description) return [];
      return [events.keyRenamed.create({ name, description: description ?? null }, context)];
    }
    case 'set expiry': {
      const { expiresAt } = command;
      if (expiresAt === state.expiresAt) return [];
      const refused = laterThanAllowed(expiresAt, state.expiresAt, state.words.expiresAt, command);
      return refused ?? [events.keyExpiryChanged.create({ expiresAt: expiresAt ?? null }, context)];
    }
    case 'rotate': {
      const { secretHash, lastCharacters, previousValidUntil } = command;
      const refused = beyondOwnAccess(state, command);
      return refused ?? [events.keyRotated.create({ secretHash, lastCharacters, previousValidUntil }, context)];
    }
    case 'deactivate':
      return state.status === 'deactivated' ? [] : [events.keyDeactivated.create({}, context)];
    case 'reactivate':
      if (state.status === 'active') return [];
      return bindingValue(state.words.status, command.by.authority) === 'deactivated'
        ? refusals.setByHigherAdministrator(`Key ${id}`, 'deactivated')
        : [events.keyReactivated.create({}, context)];
  }
}

/** The same error for a key that does not exist and for one that the caller may not see. */
export function keyNotFound(id: string): Refusal {
  return refusals.notFound('API key', id);
}

/** A label may have a budget, so a key cannot remove labels that a higher administrator set on it. */
function labelled(
  labels: readonly string[],
  { labels: before, words }: PresentKey,
  command: KeyCommand,
): NewEvent[] | Refusal {
  if (isSameList(labels, before)) return [];
  const bound = bindingOwnValue(words.labels, command) ?? [];
  if (!bound.every((label) => labels.includes(label))) {
    return refusals.setByHigherAdministrator(`The list of labels of key ${command.id}`, JSON.stringify(bound));
  }
  return [events.keyLabelsChanged.create({ labels: [...labels] }, command.context)];
}

function evolve(state: KeyState, { type, data, context: { actor } }: DecidedEvent): KeyState {
  if (type === events.keyCreated.type) {
    const made = events.keyCreated.data.parse(data);
    const { name, description, labels, allowedModels, dashboardAccess, expiresAt } = made;
    const { userPathHeader = true, allowedCidrs = [] } = made;
    const words = {
      labels: withValue([], actor, labels),
      allowedModels: withValue([], actor, allowedModels),
      allowedCidrs: withValue([], actor, allowedCidrs),
      userPathHeader: withValue([], actor, userPathHeader),
      expiresAt: withValue<number | null>([], actor, expiresAt ?? null),
      status: withValue<'active' | 'deactivated'>([], actor, 'active'),
    };
    const userPath = made.userPath as UserPath | undefined;
    const lists = { labels, allowedModels, allowedCidrs };
    const facts = { name, description, userPath, dashboardAccess, userPathHeader, expiresAt };
    return { status: 'active', ...facts, ...lists, words };
  }
  if (state.status === 'absent') return state;
  const { words } = state;
  switch (type) {
    case events.keyLabelsChanged.type: {
      const { labels } = events.keyLabelsChanged.data.parse(data);
      return { ...state, labels, words: { ...words, labels: withValue(words.labels, actor, labels) } };
    }
    case events.keyAllowedModelsChanged.type: {
      const { allowedModels } = events.keyAllowedModelsChanged.data.parse(data);
      const updated = withValue(words.allowedModels, actor, allowedModels);
      return { ...state, allowedModels, words: { ...words, allowedModels: updated } };
    }
    case events.keyAllowedCidrsChanged.type: {
      const { allowedCidrs } = events.keyAllowedCidrsChanged.data.parse(data);
      const updated = withValue(words.allowedCidrs, actor, allowedCidrs);
      return { ...state, allowedCidrs, words: { ...words, allowedCidrs: updated } };
    }
    case events.keyDashboardAccessChanged.type:
      return { ...state, dashboardAccess: events.keyDashboardAccessChanged.data.parse(data).dashboardAccess };
    case events.keyUserPathHeaderChanged.type: {
      const { userPathHeader } = events.keyUserPathHeaderChanged.data.parse(data);
      const updated = withValue(words.userPathHeader, actor, userPathHeader);
      return { ...state, userPathHeader, words: { ...words, userPathHeader: updated } };
    }
    case events.keyRenamed.type: {
      const { name, description } = events.keyRenamed.data.parse(data);
      return { ...state, name, description: description ?? undefined };
    }
    case events.keyExpiryChanged.type: {
      const { expiresAt } = events.keyExpiryChanged.data.parse(data);
      const updated = withValue(words.expiresAt, actor, expiresAt);
      return { ...state, expiresAt: expiresAt ?? undefined, words: { ...words, expiresAt: updated } };
    }
    case events.keyDeactivated.type:
    case events.keyReactivated.type: {
      const status = type === events.keyDeactivated.type ? 'deactivated' : 'active';
      return { ...state, status, words: { ...words, status: withValue(words.status, actor, status) } };
    }
    default:
      return state;
  }
}

// Executes a command on a key while the key of its administrator is as it was when the command was decided.

/**
 * @param commandOf the command with the administrator as it is now; called again when that has changed meanwhile
 * @throws what `commandOf` throws; Refusal
 */
export function changeKey(
  commandOf: () => KeyCommand,
  decided: Decided,
  ifRevision?: bigint | 'noStream',
): Promise<Handled<KeyState>> {
  return whileConditionsChange(decided, () => {
    const command = commandOf();
    const conditions = unchangedAdministrator(command);
    const options = { log: decided.log, stream: keyStream(command.id), ifRevision, conditions };
    return executeCommand(keyDecider, command, options);
  });
}

/** Renames a label on every key that has it. */
interface RenameLabel {
  readonly from: string;
  readonly to: string;
  readonly context: EventContext;
  /** Present. */
  by(): KeyAdministrator;
}

/** Appends are synced together, so concurrent ones take hardly longer than one. */
const MAX_CONCURRENT = 64;

/**
 * Renames key by key: if the gateway stops half-way, the same command completes the rest.
 * @param ids of the keys that have the label
 * @returns how many keys were changed, and the position of the newest change
 * @throws Refusal
 */
export async function renameLabel(
  ids: readonly string[],
  { from, to, context, by }: RenameLabel,
  decided: Decided,
): Promise<{ readonly renamed: number; readonly position: Position | undefined }> {
  let renamed = 0;
  let newest: Position | undefined;
  const waiting = ids.values();
  const renameNext = async (): Promise<void> => {
    for (const id of waiting) {
      const { position } = await changeKey(() => ({ kind: 'rename label', id, from, to, context, by: by() }), decided);
      if (position === undefined) continue;
      renamed += 1;
      if (newest === undefined || position > newest) newest = position;
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, renameNext));
  return { renamed, position: newest };
}
