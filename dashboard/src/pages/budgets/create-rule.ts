import { ApiError } from '../../api/client.ts';
import { lastRevision } from '../../api/last-revision.ts';
import { isConflict } from '../../api/send-change.ts';
import type { RuleName } from './rule-name.ts';
import { type NewRule, saveNewRule } from './save-new-rule.ts';

/**
 * Sends a new rule. @throws ApiError, also 409 `revision_mismatch` when the rule exists
 * @param subject of the rule in the history
 */
export function createRule<Row extends RuleName & { readonly revision?: string }>(
  rule: Pick<NewRule<Row>, 'name' | 'readRules' | 'send'>,
  subject: string,
): Promise<unknown> {
  return saveNewRule({
    ...rule,
    isConflict: (error) => error instanceof ApiError && isConflict(error),
    existing: () => new ApiError('It exists already.', { status: 409, code: 'revision_mismatch' }),
    lastRevision: () => lastRevision(subject),
  });
}
