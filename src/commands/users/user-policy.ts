/** Commands and events of the policy of a user path. Pure. */
import { userPolicyRemoved, userPolicySet } from '../../events/catalogue/user.ts';
import { type EventContext, type NewEvent, type StreamName, streamName, type UserPath } from '../../events/event.ts';
import type { Authority } from '../access/authority.ts';
import { covers } from '../access/selector.ts';
import { bindingValue, type ValuesByAdministrator, withValue } from '../access/values-by-administrator.ts';
import type { DecidedEvent, Decider } from '../handle-command.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { isSameList } from '../same-list.ts';

export type UserPolicyState = {
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
