/** What names a budget or a rate limit. */

export interface RuleName {
  readonly scope: string;
  readonly subject: string;
  readonly period_seconds: number;
}

/** Of its row in lists. */
export function rowKey({ scope, subject, period_seconds: seconds }: RuleName): string {
  return `${scope}:${subject} ${seconds}`;
}

export function findRule<Row extends RuleName>(rules: readonly Row[], name: RuleName): Row | undefined {
  return rules.find((rule) => isOfSubject(rule, name) && rule.period_seconds === name.period_seconds);
}

/** All rules of one subject have one revision. */
export function isOfSubject(rule: RuleName, name: RuleName): boolean {
  return rule.scope === name.scope && rule.subject === name.subject;
}

/** As the gateway stores it: `team/alpha/` becomes `/team/alpha`. */
export function canonicalSubject(scope: string, text: string): string {
  const subject = text.trim();
  if (scope !== 'user_path') return subject;
  return `/${subject.replace(/^\//, '').replace(/\/$/, '')}`;
}
