/** Records the configuration's budgets and rate limits as events, where they differ from the log. */
import { type BudgetSubject, budgetDecider, budgetStream, nanoOf } from '../commands/budgets/budget.ts';
import { executeCommand } from '../commands/handle-command.ts';
import { budgetPeriod, rateLimitPeriod } from '../commands/period.ts';
import { type RateLimitSubject, rateLimitDecider, rateLimitStream } from '../commands/rate-limits/rate-limit.ts';
import type { BudgetConfig, RateLimitConfig } from '../config/limits-schema.ts';
import type { EventContext, Position } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { parseUserPath } from '../http/request-head.ts';

const context: EventContext = { actor: 'system' };

type Known<Subject> = Subject & { readonly source: 'manual' | 'config' };

/**
 * @param stored the existing budgets
 * @returns log position of the last change; undefined without a change
 * @throws Refusal for an invalid user path
 */
export async function declareBudgets(
  declared: BudgetConfig['declared'],
  stored: Iterable<Known<BudgetSubject>>,
  log: EventLog,
): Promise<Position | undefined> {
  const rows = declared.map(({ scope, subject, period, amount }) => ({
    scope,
    subject: scope === 'user_path' ? parseUserPath(subject, 'budgets.user_paths.path') : subject,
    periodSeconds: known(budgetPeriod(period), period),
    amount: known(nanoOf(amount), amount),
  }));
  let last: Position | undefined;
  for (const [stream, { of, declaredRules }] of bySubject(rows, stored, budgetStream)) {
    const command = { do: 'declare', of, budgets: declaredRules, context } as const;
    const { position } = await executeCommand(budgetDecider, command, { log, stream });
    last = position ?? last;
  }
  return last;
}

/** The same for rate limits. */
export async function declareRateLimits(
  declared: RateLimitConfig['declared'],
  stored: Iterable<Known<RateLimitSubject>>,
  log: EventLog,
): Promise<Position | undefined> {
  const rows = declared.map(({ scope, subject, period, maxRequests, maxTokens }) => ({
    scope,
    subject: scope === 'user_path' ? parseUserPath(subject, 'rate_limits.user_paths.path') : subject,
    periodSeconds: known(rateLimitPeriod(period), period),
    maxRequests,
    maxTokens,
  }));
  let last: Position | undefined;
  for (const [stream, { of, declaredRules }] of bySubject(rows, stored, rateLimitStream)) {
    const limits = declaredRules.map(({ periodSeconds, maxRequests, maxTokens }) => ({
      periodSeconds,
      maxRequests,
      maxTokens,
    }));
    const { position } = await executeCommand(
      rateLimitDecider,
      { do: 'declare', of, limits, context },
      { log, stream },
    );
    last = position ?? last;
  }
  return last;
}

/** Every subject with a declared limit, now or before. */
function bySubject<
  Scope extends string,
  Row extends { readonly scope: Scope; readonly subject: string },
  Stream extends string,
>(
  rows: readonly Row[],
  stored: Iterable<Known<{ readonly scope: Scope; readonly subject: string }>>,
  streamOf: (of: { readonly scope: Scope; readonly subject: string }) => Stream,
) {
  const subjects = new Map<Stream, { of: { readonly scope: Scope; readonly subject: string }; declaredRules: Row[] }>();
  const entry = ({ scope, subject }: { readonly scope: Scope; readonly subject: string }) => {
    const of = { scope, subject };
    const found = subjects.get(streamOf(of)) ?? { of, declaredRules: [] };
    subjects.set(streamOf(of), found);
    return found;
  };
  for (const row of rows) entry(row).declaredRules.push(row);
  for (const row of stored) if (row.source === 'config') entry(row);
  return subjects;
}

/** The schema of the configuration allows no other values. */
function known<Value>(value: Value | undefined, written: string | number): Value {
  if (value === undefined) throw new Error(`'${written}' is neither a period nor an amount`);
  return value;
}
