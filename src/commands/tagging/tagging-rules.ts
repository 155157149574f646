/** What a rule is by which a request header becomes labels, and what rules there may be. */
import { isCredentialHeader } from '../credential-names.ts';
import { type Refusal, refusals } from '../refusal.ts';

export interface TaggingRule {
  /** Lower case. */
  readonly header: string;
  /** Cut off the front of each label that begins with it. */
  readonly prefix: string;
  readonly delimiter: string;
  /** Whether the header is kept from providers. */
  readonly doNotPass: boolean;
}

/** More would be work on every request. */
const MAX_RULES = 50;

/** Undefined when all is well. */
export function checkedRules(rules: readonly TaggingRule[], managed: ReadonlySet<string>): Refusal | undefined {
  if (rules.length > MAX_RULES) return refusals.invalidRequest(`There can be at most ${MAX_RULES} rules.`, 'headers');
  const seen = new Set<string>();
  for (const [place, { header }] of rules.entries()) {
    const param = `headers.${place}.header`;
    if (isCredentialHeader(header)) {
      // A label is shown to many.
      return refusals.invalidRequest(`'${header}' holds credentials, which must not become labels.`, param);
    }
    if (managed.has(header)) {
      return refusals.invalidRequest(
        `The rule for '${header}' is part of the configuration, and changed there.`,
        param,
      );
    }
    if (seen.has(header)) return refusals.invalidRequest(`There are two rules for '${header}'.`, param);
    seen.add(header);
  }
  return undefined;
}
