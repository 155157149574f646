/**
 * The policies in force at each user path: those that administrators have set, and over them those of the
 * configuration.
 */
import type { UserPath } from '../../events/event.ts';
import type { CurrentUserLists, UserLists } from '../access/authorizer.ts';
import { canonicalSelectors } from '../access/selector.ts';
import { Refusal } from '../refusal.ts';

/** A policy as the configuration declares it. */
export interface DeclaredPolicy {
  readonly userPath: UserPath;
  /** Canonical selectors. */
  readonly allowedModels: readonly string[];
  readonly description: string | undefined;
}

export type DeclaredPolicies = ReadonlyMap<UserPath, DeclaredPolicy>;

/** A policy that an administrator has set. Times are milliseconds since the epoch. */
export interface StoredPolicy extends DeclaredPolicy {
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly revision: number;
}

export interface StoredPolicies {
  readonly policies: ReadonlyMap<UserPath, StoredPolicy>;
  /** How many of the policies restrict models. */
  readonly restricting: number;
  /** Changes with each change of a policy. */
  readonly version: number;
}

/**
 * @param policies with selectors as written in the configuration
 * @throws Error that names the path and its problem
 */
export function declaredPolicies(
  policies: readonly DeclaredPolicy[],
  isProvider: (name: string) => boolean,
): DeclaredPolicies {
  const declared = new Map<UserPath, DeclaredPolicy>();
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

/** @param stored the policies of now or of an earlier time */
export function userLists(stored: Pick<StoredPolicies, 'policies'>, declared: DeclaredPolicies): UserLists {
  return { at: (path) => (declared.get(path) ?? stored.policies.get(path))?.allowedModels };
}

export function policiesInForce(stored: () => StoredPolicies, declared: DeclaredPolicies): CurrentUserLists {
  const isDeclared = [...declared.values()].some(({ allowedModels }) => allowedModels.length > 0);
  return {
    at: (path) => (declared.get(path) ?? stored().policies.get(path))?.allowedModels,
    get any() {
      return isDeclared || stored().restricting > 0;
    },
    get version() {
      return stored().version;
    },
  };
}
