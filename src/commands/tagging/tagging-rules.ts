/** A rule that converts a request header to labels, and the limits of such rules. */
import { isCredentialHeader } from '../credential-names.ts';
import { type Refusal, refusals } from '../refusal.ts';

export interface TaggingRule {
  /** Lower case. */
  readonly header: string;
  /** Removed from the beginning of each label. */
  readonly prefix: string;
  readonly delimiter: string;
  /** Whether the header is not forwarded to providers. */
  readonly doNotPass: boolean;
}

/** Bounds the work per request. */
const MAX_RULES = 50;

/** Undefined when the rules are valid. */
export function checkedRules(rules: readonly TaggingRule[], managed: ReadonlySet<string>): Refusal | undefined {
  if (rules.length > MAX_RULES) return refusals.invalidRequest(`There can be at most ${MAX_RULES} rules.`, 'headers');
  const seen = new Set<string>();
  for (const [place, { header }] of rules.entries()) {
    const param = `headers.${place}.header`;
    if (isCredentialHeader(header)) {
      // Many users may read labels.
      return refusals.invalidRequest(`'${header}' holds credentials, which must not become labels.`, param);
    }
    if (managed.has(header)) {
      return refusals.invalidRequest(
        `The rule for '${header}' is declared in the configuration and can be changed only there.`,
        param,
      );
    }
    if (seen.has(header)) return refusals.invalidRequest(`There are two rules for '${header}'.`, param);
    seen.add(header);
  }
  return undefined;
}
