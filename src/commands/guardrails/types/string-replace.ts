/** `string_replace`: replaces fixed texts or patterns, or decides when one occurs. */
import { z } from 'zod';
import type { StreamChannel, TextPart } from '../guarded-text.ts';
import { allowed, type GuardrailDecision } from '../guardrail-decision.ts';
import type {
  CompiledGuardrail,
  GuardrailPhase,
  GuardrailResult,
  GuardrailType,
  StreamGuardrail,
} from '../guardrail-type.ts';
import { cascade } from '../text/cascade.ts';
import { ChannelStages } from '../text/channel-stages.ts';
import type { TextStage } from '../text/json-text-rewriter.ts';
import { inTurns, rewriteJoints, rewriteLong, type Work } from '../text/rewrite-parts.ts';
import { StreamRewriter } from '../text/stream-rewriter.ts';
import { changedTexts } from './anonymise.ts';
import { isConversation, rolesField, rolesMember } from './guarded-roles.ts';
import { matchActionDefaults, matchActionFields, matchActionMembers, matchDecision } from './match-action.ts';
import { type ReplacementRule, replacementRules } from './replacement-rules.ts';
import { cut } from './summary-text.ts';
import { yesOrNo, yesOrNoField } from './yes-or-no.ts';

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
