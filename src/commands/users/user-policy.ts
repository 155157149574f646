/** Policies of user paths: their commands and events, those in force, and the tree of users. */
import { userPolicyRemoved, userPolicySet } from '../../events/catalogue/access.ts';
import { type EventContext, type NewEvent, type StreamName, streamName, type UserPath } from '../../events/event.ts';
import { type Authority, bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import { type CurrentUserLists, type EffectiveModels, pathAndAbove } from '../access/authorizer.ts';
import { canonicalSelectors, covers } from '../access/selector.ts';
import type { ObjectsInForce } from '../administered.ts';
import { isSameList } from '../canonical-json.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { Refusal, refusals } from '../refusal.ts';

type UserPolicyState = {
  /** The lists that administrators set. */
  readonly words: ValuesByAdministrator<readonly string[]>;
} & (
  | { readonly status: 'absent' }
  | {
      readonly status: 'set';
      readonly allowedModels: readonly string[];
      readonly description: string | undefined;
    }
);

export type UserPolicyCommand = {
  readonly userPath: UserPath;
  readonly context: EventContext;
  readonly authority: Authority;
} & (
  | {
      readonly kind: 'set';
      /** Canonical selectors. */
      readonly allowedModels: readonly string[];
      readonly description: string | undefined;
    }
  | { readonly kind: 'remove' }
);

export const userPolicyDecider: Decider<UserPolicyState, UserPolicyCommand> = {
  initial: { status: 'absent', words: [] },
  dependsOn: 'its stream',
  decide,
  evolve,
};

export function userStream(path: UserPath): StreamName {
  return streamName('user', path);
}

function decide(command: UserPolicyCommand, state: UserPolicyState): readonly NewEvent[] | Refusal {
  const { userPath, context, authority } = command;
  const bound = bindingValue(state.words, authority);
  const tooLoose = () => refusals.setByHigherAdministrator(`The policy of ${userPath}`, JSON.stringify(bound));
  if (command.kind === 'remove') {
    if (state.status === 'absent') return refusals.notFound('user policy', userPath);
    if (bound !== undefined) return tooLoose();
    return [userPolicyRemoved.create({ userPath }, context)];
  }
  const { allowedModels, description } = command;
  if (state.status === 'set' && state.description === description && isSameList(state.allowedModels, allowedModels)) {
    return [];
  }
  if (bound !== undefined && !covers(bound, allowedModels)) return tooLoose();
  const described = description === undefined ? {} : { description };
  return [userPolicySet.create({ userPath, allowedModels: [...allowedModels], ...described }, context)];
}

function evolve(state: UserPolicyState, { type, data, context: { actor } }: DecidedEvent): UserPolicyState {
  if (type === userPolicySet.type) {
    const { allowedModels, description } = userPolicySet.data.parse(data);
    return { status: 'set', allowedModels, description, words: withValue(state.words, actor, allowedModels) };
  }
  if (type !== userPolicyRemoved.type) return state;
  return { status: 'absent', words: withValue(state.words, actor, undefined) };
}

// The policies in force at each user path.

/** With canonical selectors. */
export interface UserPolicy {
  readonly userPath: string;
  readonly allowedModels: readonly string[];
  readonly description?: string | undefined;
}

export type UserPolicies = ObjectsInForce<UserPolicy>;

/**
 * @param policies of the configuration, with selectors as written there
 * @throws Error that names the path and its problem
 */
export function declaredPolicies(
  policies: readonly UserPolicy[],
  isProvider: (name: string) => boolean,
): ReadonlyMap<string, UserPolicy> {
  const declared = new Map<string, UserPolicy>();
  for (const policy of policies) {
    const allowedModels = canonicalSelectors(policy.allowedModels, isProvider, 'allowed_models');
    if (allowedModels instanceof Refusal) {
      throw new Error(`users: the policy declared for '${policy.userPath}' is invalid: ${allowedModels.message}`);
    }
    if (declared.has(policy.userPath)) {
      throw new Error(`users: '${policy.userPath}' has two declared policies`);
    }
    declared.set(policy.userPath, { ...policy, allowedModels });
  }
  return declared;
}

export function userLists(policies: UserPolicies): CurrentUserLists {
  const isRestricting = policies.derive((all) =>
    [...all.values()].some(({ allowedModels }) => allowedModels.length > 0),
  );
  return {
    at: (path) => policies.get(path)?.allowedModels,
    get any() {
      return isRestricting();
    },
    get version() {
      return policies.version;
    },
  };
}

/** Every known user path, with the policy in force there. Pure. */
export interface UserNode {
  readonly user_path: UserPath;
  readonly allowed_models: readonly string[];
  readonly description?: string | undefined;
  /** Whether a policy is set here; if not, the path is known by a key or by a path below it. */
  readonly configured: boolean;
  /** Keys bound to exactly this path, active or not. */
  readonly key_count: number;
  /** Root first. */
  readonly inherited_from: readonly UserPath[];
  readonly restricted: boolean;
  readonly effective_models: readonly string[];
  readonly created_at?: string | undefined;
  readonly updated_at?: string | undefined;
  /** For `If-Match`. */
  readonly revision?: string | undefined;
  /** Whether it is declared in the configuration and cannot be changed here. */
  readonly managed: boolean;
}

interface UserTreeInput {
  readonly policies: UserPolicies;
  readonly keys: Iterable<{ readonly userPath: UserPath | undefined }>;
  readonly effective: EffectiveModels;
}

export interface UserTree {
  /** Every known path, sorted. */
  readonly paths: readonly UserPath[];
  /** Computed on demand. */
  node(path: UserPath): UserNode;
}

export function userTree({ policies, keys, effective }: UserTreeInput): UserTree {
  const keyCounts = new Map<UserPath, number>();
  for (const { userPath } of keys) {
    if (userPath !== undefined) keyCounts.set(userPath, (keyCounts.get(userPath) ?? 0) + 1);
  }
  const paths = new Set<UserPath>(['/' as UserPath]);
  for (const known of [policies.keys as UserPath[], keyCounts.keys()]) {
    for (const path of known) for (const one of pathAndAbove(path)) paths.add(one);
  }
  return {
    paths: [...paths].sort(),
    node(path) {
      const policy = policies.get(path);
      const saved = policies.savedAs(path);
      return {
        user_path: path,
        allowed_models: policy?.allowedModels ?? [],
        description: policy?.description,
        configured: policy !== undefined,
        key_count: keyCounts.get(path) ?? 0,
        inherited_from: effective.inheritedFrom(path),
        restricted: effective.restricts(path),
        effective_models: effective.of(path),
        created_at: saved && new Date(saved.createdAt).toISOString(),
        updated_at: saved && new Date(saved.updatedAt).toISOString(),
        revision: saved && String(saved.revision),
        managed: policies.isDeclared(path),
      };
    },
  };
}
