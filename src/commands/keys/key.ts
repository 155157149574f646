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
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';

export type KeyState =
  | { readonly status: 'absent' }
  | {
      readonly status: 'active' | 'deactivated';
      readonly labels: readonly string[];
      readonly allowedModels: readonly string[];
      readonly dashboardAccess: boolean;
      readonly userPathHeader: boolean;
    };

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

export type KeyCommand = { readonly id: string; readonly context: EventContext } & (
  | ({ readonly kind: 'create' } & NewKey)
  | { readonly kind: 'set labels'; readonly labels: readonly string[] }
  | { readonly kind: 'rename label'; readonly from: string; readonly to: string }
  | { readonly kind: 'set allowed models'; readonly allowedModels: readonly string[] }
  | { readonly kind: 'set dashboard access'; readonly dashboardAccess: boolean }
  | { readonly kind: 'set user path header'; readonly userPathHeader: boolean }
  | { readonly kind: 'deactivate' }
);

export const keyDecider: Decider<KeyState, KeyCommand> = { initial: { status: 'absent' }, decide, evolve };

function decide(command: KeyCommand, state: KeyState): readonly NewEvent[] | Refusal {
  const { id, context } = command;
  if (command.kind === 'create') {
    if (state.status !== 'absent') return refusals.changedMeanwhile(id);
    const { kind, context: _, userPathHeader, ...facts } = command;
    const header = userPathHeader ? {} : { userPathHeader };
    const lists = { labels: [...facts.labels], allowedModels: [...facts.allowedModels] };
    return [keyCreated.create({ ...facts, ...lists, ...header }, context)];
  }
  if (state.status === 'absent') return keyNotFound(id);
  switch (command.kind) {
    case 'set labels':
      return labelled(command.labels, state.labels, context);
    case 'rename label': {
      const { from, to } = command;
      return labelled([...new Set(state.labels.map((label) => (label === from ? to : label)))], state.labels, context);
    }
    case 'set allowed models': {
      const { allowedModels } = command;
      if (isSame(allowedModels, state.allowedModels)) return [];
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

function labelled(labels: readonly string[], before: readonly string[], context: EventContext): NewEvent[] {
  return isSame(labels, before) ? [] : [keyLabelsChanged.create({ labels: [...labels] }, context)];
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((entry, place) => entry === other[place]);
}

function evolve(state: KeyState, { type, data }: DecidedEvent): KeyState {
  if (type === keyCreated.type) {
    const { labels, allowedModels, dashboardAccess, userPathHeader = true } = keyCreated.data.parse(data);
    return { status: 'active', labels, allowedModels, dashboardAccess, userPathHeader };
  }
  if (state.status === 'absent') return state;
  switch (type) {
    case keyLabelsChanged.type:
      return { ...state, labels: keyLabelsChanged.data.parse(data).labels };
    case keyAllowedModelsChanged.type:
      return { ...state, allowedModels: keyAllowedModelsChanged.data.parse(data).allowedModels };
    case keyDashboardAccessChanged.type:
      return { ...state, dashboardAccess: keyDashboardAccessChanged.data.parse(data).dashboardAccess };
    case keyUserPathHeaderChanged.type:
      return { ...state, userPathHeader: keyUserPathHeaderChanged.data.parse(data).userPathHeader };
    case keyDeactivated.type:
      return { ...state, status: 'deactivated' };
    default:
      return state;
  }
}
