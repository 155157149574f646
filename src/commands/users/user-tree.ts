/** Every known user path, with the policy in force there. Pure. */
import type { UserPath } from '../../events/event.ts';
import { pathAndAbove } from '../access/authorizer.ts';
import type { EffectiveModels } from '../access/effective-models.ts';
import type { DeclaredPolicies, StoredPolicies, StoredPolicy } from './policies-in-force.ts';

export interface UserNode {
  readonly user_path: UserPath;
  readonly allowed_models: readonly string[];
  readonly description?: string;
  /** Whether a policy is set here; if not, the path is known by a key or by a path below it. */
  readonly configured: boolean;
  /** Keys bound to exactly this path, active or not. */
  readonly key_count: number;
  /** Root first. */
  readonly inherited_from: readonly UserPath[];
  readonly restricted: boolean;
  readonly effective_models: readonly string[];
  readonly created_at?: string;
  readonly updated_at?: string;
  /** For `If-Match`. */
  readonly revision?: string;
  /** Whether it is declared in the configuration and cannot be changed here. */
  readonly managed: boolean;
}

export interface UserTreeInput {
  readonly stored: Pick<StoredPolicies, 'policies'>;
  readonly declared: DeclaredPolicies;
  readonly keys: Iterable<{ readonly userPath: UserPath | undefined }>;
  readonly effective: EffectiveModels;
}

export interface UserTree {
  /** Every known path, sorted. */
  readonly paths: readonly UserPath[];
  /** Computed on demand. */
  node(path: UserPath): UserNode;
}

export function userTree({ stored, declared, keys, effective }: UserTreeInput): UserTree {
  const keyCounts = new Map<UserPath, number>();
  for (const { userPath } of keys) {
    if (userPath !== undefined) keyCounts.set(userPath, (keyCounts.get(userPath) ?? 0) + 1);
  }
  const paths = new Set<UserPath>(['/' as UserPath]);
  for (const known of [stored.policies.keys(), declared.keys(), keyCounts.keys()]) {
    for (const path of known) for (const one of pathAndAbove(path)) paths.add(one);
  }
  return {
    paths: [...paths].sort(),
    node(path) {
      const policy = declared.get(path) ?? stored.policies.get(path);
      return {
        user_path: path,
        allowed_models: policy?.allowedModels ?? [],
        ...(policy?.description === undefined ? {} : { description: policy.description }),
        configured: policy !== undefined,
        key_count: keyCounts.get(path) ?? 0,
        inherited_from: effective.inheritedFrom(path),
        restricted: effective.restricts(path),
        effective_models: effective.of(path),
        ...(declared.has(path) ? {} : policyMembers(stored.policies.get(path))),
        managed: declared.has(path),
      };
    },
  };
}

function policyMembers(policy: StoredPolicy | undefined) {
  if (policy === undefined) return {};
  return {
    created_at: new Date(policy.createdAt).toISOString(),
    updated_at: new Date(policy.updatedAt).toISOString(),
    revision: String(policy.revision),
  };
}
