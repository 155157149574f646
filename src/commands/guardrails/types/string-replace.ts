/** `string_replace`: replaces fixed texts or patterns, or decides when one occurs. */
import { z } from 'zod';
import {
  allowed,
  type CompiledGuardrail,
  GuardrailConfigError,
  type GuardrailDecision,
  type GuardrailPhase,
  type GuardrailResult,
  type GuardrailType,
  type StreamChannel,
  type StreamGuardrail,
  type TextPart,
} from '../guardrail-type.ts';
import { type Finder, type Found, literalFinder, type PatternMatch, patternFinder } from '../text/finder.ts';
import { ChannelStages, type TextStage } from '../text/json-text.ts';
import { inTurns, rewriteJoints, rewriteLong, StreamRewriter, type Work } from '../text/stream-rewriter.ts';
import { changedTexts } from './anonymise.ts';
import {
  cut,
  isConversation,
  matchActionDefaults,
  matchActionFields,
  matchActionMembers,
  matchDecision,
  rolesField,
  rolesMember,
  yesOrNo,
  yesOrNoField,
} from './type-settings.ts';

/** The rules of `string_replace`: one per line, `find => replace`; `#` begins a comment line. */
const mostRules = 500;
const arrow = '=>';

interface RuleOptions {
  readonly mode: 'literal' | 'regex';
  readonly ignoreCase: boolean;
  /** Whether each rule needs a replacement. */
  readonly replaces: boolean;
}

/** A rule with its finder, whatever the finder's matches are. */
interface ReplacementRule {
  readonly line: string;
  readonly longest: number;
  use<Result>(user: RuleUser<Result>): Result;
}

type RuleUser<Result> = <Match extends Found>(
  finder: Finder<Match>,
  replace: (match: Match, text: string) => string,
) => Result;

/** @throws GuardrailConfigError that names the line */
function replacementRules(text: string, options: RuleOptions): ReplacementRule[] {
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

const config = z.strictObject({
  rules: z.string().min(1).max(200_000),
  mode: z.enum(['literal', 'regex']).default('literal'),
  case_insensitive: yesOrNo.default(false),
  roles: rolesMember(['user']),
  on_match: z.enum(['replace', 'block', 'respond', 'warn']).default('replace'),
  ...matchActionMembers,
  stream_lookbehind: z.int().min(1).max(4_096).default(64),
});

type Config = z.infer<typeof config>;

export const stringReplace: GuardrailType<Config> = {
  type: 'string_replace',
  label: 'String replacement',
  description: 'Replaces texts or patterns, or blocks, responds or warns when one occurs.',
  phases: ['prompt', 'response', 'stream'],
  mutating: true,
  config,
  defaults: {
    mode: 'literal',
    case_insensitive: false,
    roles: ['user'],
    on_match: 'replace',
    ...matchActionDefaults,
    stream_lookbehind: 64,
  },
  fields: [
    {
      key: 'rules',
      label: 'Rules',
      input: 'textarea',
      required: true,
      help: 'One per line: find => replace. Lines that begin with # are comments.',
      placeholder: 'Project Falcon => the project',
      scope: '',
    },
    {
      key: 'mode',
      label: 'Mode',
      input: 'select',
      required: false,
      options: [
        { value: 'literal', label: 'Literal' },
        { value: 'regex', label: 'Regular expression (RE2 syntax)' },
      ],
      scope: '',
    },
    yesOrNoField('case_insensitive', 'Ignore case'),
    rolesField(),
    {
      key: 'on_match',
      label: 'On a match',
      input: 'select',
      required: false,
      options: ['replace', 'block', 'respond', 'warn'].map((value) => ({ value, label: value })),
      scope: '',
    },
    ...matchActionFields,
    {
      key: 'stream_lookbehind',
      label: 'Longest match in streams',
      input: 'number',
      required: false,
      help: 'Characters that a stream may retain. A rule whose matches can be longer is refused in the stream phase.',
      scope: '',
    },
  ],
  summary({ mode, on_match, rules }) {
    const lines = rules.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('#'));
    return `${mode} • ${on_match} • ${lines.length} ${lines.length === 1 ? 'rule' : 'rules'} • ${cut(lines[0] ?? '')}`;
  },
  phaseProblem(given, phase: GuardrailPhase) {
    if (phase !== 'stream') return undefined;
    const long = rulesOf(given).find(({ longest }) => longest > given.stream_lookbehind);
    if (long === undefined) return undefined;
    const length = Number.isFinite(long.longest) ? `${long.longest} characters` : 'any number of characters';
    return `the rule '${cut(long.line)}' can match ${length}; a stream retains ${given.stream_lookbehind} (stream_lookbehind)`;
  },
  changesTexts: ({ on_match }) => on_match === 'replace',
  compile: (given) => compiled(given, rulesOf(given)),
};

function rulesOf({ rules, mode, case_insensitive, on_match }: Config): ReplacementRule[] {
  return replacementRules(rules, { mode, ignoreCase: case_insensitive, replaces: on_match === 'replace' });
}

function compiled(given: Config, rules: readonly ReplacementRule[]): CompiledGuardrail {
  const replaces = given.on_match === 'replace';
  const decision = matchDecision(given.on_match, given);
  const roles = new Set(given.roles);
  const evaluate = function* (parts: readonly TextPart[], isRead: (part: TextPart) => boolean): Work<GuardrailResult> {
    const own = parts.map(({ text }) => text);
    const count = { matches: 0 };
    for (const [index, part] of parts.entries()) {
      if (!isRead(part)) continue;
      const text = yield* rewritten(rules, part.text, count);
      if (count.matches > 0 && !replaces) return { decision, findings: { match: count.matches } };
      own[index] = text;
    }
    let written: readonly string[] = own;
    for (const rule of rules) {
      const texts = written;
      written = yield* rule.use((finder, replace) =>
        rewriteJoints(parts, texts, finder, counted(replace, count), isRead),
      );
    }
    const findings = count.matches > 0 ? { match: count.matches } : undefined;
    if (findings !== undefined && !replaces) return { decision, findings };
    return { decision: allowed, texts: changedTexts(parts, written), ...(findings !== undefined && { findings }) };
  };
  return {
    prompt: (parts, { signal }) =>
      inTurns(
        evaluate(parts, (part) => isConversation(part) && roles.has(part.role)),
        signal,
      ),
    response: (parts, { signal }) => inTurns(evaluate(parts, isConversation), signal),
    openStream: () => (replaces ? new ReplacedStream(rules) : new WatchedStream(rules, decision)),
  };
}

function* rewritten(rules: readonly ReplacementRule[], whole: string, count: { matches: number }): Work<string> {
  let text = whole;
  for (const rule of rules) {
    const before = text;
    text = yield* rule.use((finder, replace) => rewriteLong(finder, before, counted(replace, count)));
  }
  return text;
}

function counted<Match>(replace: (match: Match, text: string) => string, count: { matches: number }) {
  return (match: Match, text: string) => {
    count.matches += 1;
    return replace(match, text);
  };
}

class ReplacedStream implements StreamGuardrail {
  readonly #stages: ChannelStages;
  #matches = 0;

  constructor(rules: readonly ReplacementRule[]) {
    this.#stages = new ChannelStages(() =>
      cascade(
        rules.map((rule) =>
          rule.use(
            (finder, replace): TextStage =>
              new StreamRewriter(finder, (match, text) => {
                this.#matches += 1;
                return replace(match, text);
              }),
          ),
        ),
      ),
    );
  }

  push(channel: StreamChannel, text: string) {
    return { text: this.#stages.push(channel, text) };
  }

  end(channel: StreamChannel) {
    return { text: this.#stages.end(channel) };
  }

  findings(): Readonly<Record<string, number>> {
    return this.#matches > 0 ? { match: this.#matches } : {};
  }
}

/** Decides at the first match. Text is retained while it may be part of a match that blocks. */
class WatchedStream implements StreamGuardrail {
  readonly #decision: GuardrailDecision;
  readonly #stages: ChannelStages;
  #matches = 0;

  constructor(rules: readonly ReplacementRule[], decision: GuardrailDecision) {
    this.#decision = decision;
    const note = (text: string) => {
      this.#matches += 1;
      return text;
    };
    this.#stages = new ChannelStages(() =>
      cascade(
        rules.map((rule) =>
          rule.use(
            (finder): TextStage =>
              new StreamRewriter(finder, (match, text) => note(text.slice(match.start, match.end)), {
                stopAtMatch: decision.action !== 'warn',
              }),
          ),
        ),
      ),
    );
  }

  push(channel: StreamChannel, text: string) {
    const before = this.#matches;
    const passed = this.#stages.push(channel, text);
    // A warning retains nothing.
    const written = this.#decision.action === 'warn' ? text : passed;
    return this.#matches > before ? { text: written, decision: this.#decision } : { text: written };
  }

  end(channel: StreamChannel) {
    const before = this.#matches;
    const passed = this.#stages.end(channel);
    const written = this.#decision.action === 'warn' ? '' : passed;
    return this.#matches > before ? { text: written, decision: this.#decision } : { text: written };
  }

  findings(): Readonly<Record<string, number>> {
    return this.#matches > 0 ? { match: this.#matches } : {};
  }
}

/** Several stages one after the other: each reads what the stage before returns. */
function cascade(stages: readonly TextStage[]): TextStage {
  const [first] = stages;
  if (first !== undefined && stages.length === 1) return first;
  return {
    push: (text) => stages.reduce((passed, stage) => stage.push(passed), text),
    end: () => stages.reduce((passed, stage) => stage.push(passed) + stage.end(), ''),
  };
}
