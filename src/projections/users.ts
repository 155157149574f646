/** The policies of user paths. */
import { userPolicyRemoved, userPolicySet } from '../events/catalogue/access.ts';
import type { UserPath } from '../events/event.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

/** It is replaced, never changed. */
export interface UserPolicyRecord {
  readonly userPath: UserPath;
  /** Canonical selectors; empty: this policy allows every model. */
  readonly allowedModels: readonly string[];
  readonly description: string | undefined;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Of the newest event of its stream. */
  readonly revision: number;
}

export interface UsersState {
  readonly policies: Map<UserPath, UserPolicyRecord>;
  /** The number of policies that restrict models. */
  restricting: number;
  /** Changes with each change of the policies. */
  version: number;
}

export const usersView: Projection<UsersState> = {
  name: 'users',
  version: 1,
  filter: { types: ['user.'] },
  initial: () => ({ policies: new Map(), restricting: 0, version: 0 }),
  apply(state, event) {
    if (isA(event, userPolicySet)) {
      const { allowedModels, description } = event.data;
      const userPath = event.data.userPath as UserPath;
      const updatedAt = Math.floor(event.at);
      const createdAt = state.policies.get(userPath)?.createdAt ?? updatedAt;
      const revision = Number(event.revision);
      remove(state, userPath);
      add(state, { userPath, allowedModels, description, createdAt, updatedAt, revision });
    } else if (isA(event, userPolicyRemoved)) {
      remove(state, event.data.userPath as UserPath);
    }
    return state;
  },
  save: ({ policies }) => [...policies.values()],
  load(saved) {
    const state = usersView.initial();
    if (!Array.isArray(saved)) throw new Error('it is not a list of policies');
    for (const policy of saved) {
      if (!isPolicy(policy)) throw new Error('a saved policy has an unknown format');
      add(state, { ...policy, description: policy.description });
    }
    return state;
  },
};

function add(state: UsersState, policy: UserPolicyRecord): void {
  state.policies.set(policy.userPath, policy);
  if (policy.allowedModels.length > 0) state.restricting += 1;
  state.version += 1;
}

function remove(state: UsersState, path: UserPath): void {
  const before = state.policies.get(path);
  if (before === undefined) return;
  state.policies.delete(path);
  if (before.allowedModels.length > 0) state.restricting -= 1;
  state.version += 1;
}

function isPolicy(value: unknown): value is UserPolicyRecord {
  return (
    typeof value === 'object' &&
    value !== null &&
    'userPath' in value &&
    typeof value.userPath === 'string' &&
    'allowedModels' in value &&
    Array.isArray(value.allowedModels)
  );
}
