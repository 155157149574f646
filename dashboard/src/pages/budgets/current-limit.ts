import { ApiError, getAnswer } from '../../api/client.ts';
import type { Basis } from '../../ui/changed-meanwhile.tsx';
import type { CurrentVersion } from '../../ui/conflict-view.tsx';
import type { LimitRow } from './budget-row.ts';
import { isOfSubject, type RuleName } from './rule-name.ts';

/** What an action on a rate limit is based on. */
export function limitBasis(row: LimitRow): Basis {
  const { scope, subject, period_seconds, revision } = row;
  const name = { scope, subject, period_seconds };
  return { revision, shown: { ...name, ...maxima(row) }, readCurrent: () => readLimit(name) };
}

function maxima({ max_requests, max_tokens }: Pick<LimitRow, 'max_requests' | 'max_tokens'>) {
  return {
    ...(max_requests === undefined ? {} : { max_requests }),
    ...(max_tokens === undefined ? {} : { max_tokens }),
  };
}

/** The rate limit in force, and the revision of the limits of its subject. */
export async function readLimit(name: RuleName): Promise<CurrentVersion> {
  try {
    const { revision, max_requests, max_tokens } = await getAnswer({
      of: '/admin/rate-limits/{scope}/{subject}/{period}',
      at: `/admin/rate-limits/${name.scope}/${encodeURIComponent(name.subject)}/${name.period_seconds}`,
    });
    return { revision, version: { ...name, ...maxima({ max_requests, max_tokens }) } };
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
  // Another limit of the subject was changed, or this one was removed.
  const { rate_limits: rules } = await getAnswer('/admin/rate-limits');
  const same = rules.find((rule) => isOfSubject(rule, name));
  return { revision: same?.revision, version: null };
}
