/** The policy of a user path, and its revision. */
import { type Answer, ApiError, request } from '../../api/client.ts';
import { lastRevision } from '../../api/last-revision.ts';
import type { CurrentVersion } from '../../ui/conflict-view.tsx';

export type UserRow = Answer<'/admin/users'>['users'][number];

/** What an administrator edits. */
export interface UserPolicy {
  readonly allowed_models: readonly string[];
  readonly description: string;
}

export function policyOf(user: UserRow | undefined): UserPolicy {
  return { allowed_models: user?.allowed_models ?? [], description: user?.description ?? '' };
}

const apiPath = (path: string) => `/admin/users/${encodeURIComponent(path)}`;

/**
 * The policy in force; `version` is null without one. The revision of a path that has neither a policy nor keys is that
 * of its last change in the history.
 */
export async function currentPolicy(path: string): Promise<CurrentVersion & { readonly version: UserPolicy | null }> {
  try {
    const response = await request(apiPath(path));
    const user = (await response.json()) as UserRow;
    const revision = /"([^"]*)"/.exec(response.headers.get('etag') ?? '')?.[1];
    return { revision, version: user.configured ? policyOf(user) : null };
  } catch (error) {
    if (!isMissing(error)) throw error;
    return { revision: await lastRevision(`user:${path}`), version: null };
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}
