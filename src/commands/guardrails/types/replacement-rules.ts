/** The rules of `string_replace`: one per line, `find => replace`; `#` begins a comment line. */
import { GuardrailConfigError } from '../guardrail-type.ts';
import type { Finder, Found } from '../text/finder.ts';
import { literalFinder } from '../text/literal-finder.ts';
import { type PatternMatch, patternFinder } from '../text/pattern-finder.ts';

const mostRules = 500;
const arrow = '=>';

export interface RuleOptions {
  readonly mode: 'literal' | 'regex';
  readonly ignoreCase: boolean;
  /** Whether each rule needs a replacement. */
  readonly replaces: boolean;
}

/** A rule with its finder, whatever the finder's matches are. */
export interface ReplacementRule {
  readonly line: string;
  readonly longest: number;
  use<Result>(user: RuleUser<Result>): Result;
}

export type RuleUser<Result> = <Match extends Found>(
  finder: Finder<Match>,
  replace: (match: Match, text: string) => string,
) => Result;

/** @throws GuardrailConfigError that names the line */
export function replacementRules(text: string, options: RuleOptions): ReplacementRule[] {
  const rules: ReplacementRule[] = [];
  for (const [index, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    rules.push(ruleOf(line, index + 1, options));
  }
  if (rules.length === 0) throw new GuardrailConfigError('rules: there is no rule', 'rules');
  if (rules.length > mostRules)
    throw new GuardrailConfigError(`rules: there are more than ${mostRules} rules`, 'rules');
  return rules;
}

function ruleOf(line: string, number: number, { mode, ignoreCase, replaces }: RuleOptions): ReplacementRule {
  const at = line.indexOf(arrow);
  const find = (at === -1 ? line : line.slice(0, at)).trim();
  const replacement = at === -1 ? '' : line.slice(at + arrow.length).trim();
  if (find === '') throw badLine(number, "there is nothing to find before '=>'");
  if (replaces && at === -1) throw badLine(number, "'=>' and a replacement are missing");
  try {
    if (mode === 'literal') return rule(line, literalFinder(find, ignoreCase), () => replacement);
    const finder = patternFinder(find, ignoreCase);
    return rule(line, finder, template(replacement, finder.groupCount));
  } catch (error) {
    if (!(error instanceof GuardrailConfigError)) throw error;
    throw badLine(number, error.message);
  }
}

function badLine(number: number, problem: string): GuardrailConfigError {
  return new GuardrailConfigError(`rules, line ${number}: ${problem}`, 'rules');
}

function rule<Match extends Found>(
  line: string,
  finder: Finder<Match>,
  replace: (match: Match, text: string) => string,
): ReplacementRule {
  return { line, longest: finder.longest, use: (user) => user(finder, replace) };
}

/** `$1` to `$99` are groups, `$0` and `$&` the match, `$$` a dollar sign. */
function template(replacement: string, groupCount: number): (match: PatternMatch) => string {
  if (!replacement.includes('$')) return () => replacement;
  for (const [, group] of replacement.matchAll(/\$(\d{1,2})/g)) {
    if (Number(group) > groupCount) throw new GuardrailConfigError(`the pattern has no group ${group}`);
  }
  return ({ groups }) =>
    replacement.replace(/\$(?:\$|&|(\d{1,2}))/g, (sign, group?: string) =>
      sign === '$$' ? '$' : (groups[Number(group ?? 0)] ?? ''),
    );
}
