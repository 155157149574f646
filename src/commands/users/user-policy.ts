/** Policies of user paths: their commands and events, and those in force. */
import { userPolicyRemoved, userPolicySet } from '../../events/catalogue/access.ts';
import { type EventContext, type NewEvent, type StreamName, streamName, type UserPath } from '../../events/event.ts';
import { type Authority, bindingValue, type ValuesByAdministrator, withValue } from '../access/authority.ts';
import type { CurrentUserLists } from '../access/authorizer.ts';
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
): Map<string, UserPolicy> {
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
