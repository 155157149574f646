/** `pii`: recognises personal data and API keys without a server. */
import { z } from 'zod';
import {
  allowed,
  type CompiledGuardrail,
  type EvaluationContext,
  type GuardrailDecision,
  type GuardrailResult,
  type GuardrailType,
  type StreamChannel,
  type StreamGuardrail,
  type TextPart,
} from '../guardrail-type.ts';
import type { Placeholders } from '../placeholders.ts';
import { recognisers } from '../recognisers/known-recognisers.ts';
import { type RecognisedMatch, recogniserFinder } from '../recognisers/recogniser-finder.ts';
import type { Finder } from '../text/finder.ts';
import { ChannelStages } from '../text/json-text.ts';
import { inTurns, rewriteParts, StreamRewriter, type Work } from '../text/stream-rewriter.ts';
import { changedTexts, type Hide, hideKnownValues, hideRecorded, hideWith, operators } from './anonymise.ts';
import {
  allRoles,
  matchActionDefaults,
  matchActionFields,
  matchActionMembers,
  matchDecision,
  rolesField,
  rolesMember,
  yesOrNo,
  yesOrNoField,
} from './type-settings.ts';

const defaultEntities = recognisers.filter(({ byDefault }) => byDefault).map(({ entity }) => entity);
const allEntities = recognisers.map(({ entity }) => entity);

const config = z.strictObject({
  entities: z.array(z.enum(allEntities)).min(1).default(defaultEntities),
  action: z.enum(['anonymize', 'block', 'respond', 'warn']).default('anonymize'),
  operator: z.enum(operators).default('replace'),
  restore: yesOrNo.default(true),
  roles: rolesMember(allRoles),
  /** One value per line. */
  allow_list: z.string().max(100_000).default(''),
  ...matchActionMembers,
});

type Config = z.infer<typeof config>;

const mostPasses = 10;

export const pii: GuardrailType<Config> = {
  type: 'pii',
  label: 'Personal data and keys',
  description:
    'Recognises card and bank account numbers, e-mail addresses, telephone numbers, national ids and API keys.',
  phases: ['prompt', 'response', 'stream'],
  mutating: true,
  config,
  defaults: {
    entities: defaultEntities,
    action: 'anonymize',
    operator: 'replace',
    restore: true,
    roles: allRoles,
    allow_list: '',
    ...matchActionDefaults,
  },
  fields: [
    {
      key: 'entities',
      label: 'Entities',
      input: 'checkboxes',
      required: false,
      options: recognisers.map(({ entity, label }) => ({ value: entity, label })),
      scope: '',
    },
    {
      key: 'action',
      label: 'On a match',
      input: 'select',
      required: false,
      options: ['anonymize', 'block', 'respond', 'warn'].map((value) => ({ value, label: value })),
      scope: '',
    },
    {
      key: 'operator',
      label: 'Replacement',
      input: 'select',
      required: false,
      help: 'Only with anonymize. Values can be restored with replace.',
      options: operators.map((value) => ({ value, label: value })),
      scope: '',
    },
    yesOrNoField('restore', 'Restore values in answers'),
    rolesField(),
    {
      key: 'allow_list',
      label: 'Allowed values',
      input: 'textarea',
      required: false,
      help: 'One per line, for example the address of your support.',
      scope: '',
    },
    ...matchActionFields,
  ],
  summary: ({ action, entities }) =>
    `${action} • ${entities.length === allEntities.length ? 'all entities' : entities.join(', ')}`,
  changesTexts: ({ action }) => action === 'anonymize',
  compile: (given) => compiled(given, finderOf(given)),
};

function finderOf({ entities, allow_list }: Config): Finder<RecognisedMatch> {
  const used = recognisers.filter(({ entity }) => entities.includes(entity));
  const ignored = allow_list.split('\n').map((line) => line.trim());
  return recogniserFinder(used, new Set(ignored.filter((line) => line !== '')));
}

function compiled(given: Config, finder: Finder<RecognisedMatch>): CompiledGuardrail {
  const { action, operator, restore, roles } = given;
  const hides = action === 'anonymize';
  const decision = matchDecision(action, given);
  const isRead = new Set(roles);

  const hidden = function* (
    parts: readonly TextPart[],
    texts: readonly string[],
    hide: Hide,
    restored?: Placeholders,
  ): Work<GuardrailResult> {
    const findings: Record<string, number> = {};
    let matches = 0;
    const replace = ({ start, end, entity }: RecognisedMatch, text: string) => {
      matches += 1;
      findings[entity] = (findings[entity] ?? 0) + 1;
      return hides ? hide(entity, text.slice(start, end)) : text.slice(start, end);
    };
    const pass = (given: readonly string[]) =>
      rewriteParts(parts, given, finder, replace, ({ role }) => isRead.has(role));
    let written: readonly string[] = yield* pass(texts);
    if (matches === 0) return { decision: allowed, texts: changedTexts(parts, written) };
    if (!hides) return { decision, findings };
    // A value can be recognised once what touches it is a placeholder.
    for (let passes = 1, before = 0; restored !== undefined && before < matches && passes < mostPasses; passes += 1) {
      before = matches;
      written = yield* pass(yield* hideRecorded(parts, written, restored));
    }
    return { decision: allowed, texts: changedTexts(parts, written), findings };
  };
  const originals = (parts: readonly TextPart[]) => parts.map(({ text }) => text);

  const prompt = function* (parts: readonly TextPart[], context: EvaluationContext): Work<GuardrailResult> {
    if (!hides) return yield* hidden(parts, originals(parts), () => '');
    const restored = restore && operator === 'replace' ? context.placeholders : undefined;
    const texts = restored === undefined ? originals(parts) : yield* hideKnownValues(parts, context);
    return yield* hidden(parts, texts, hideWith(operator, restored), restored);
  };

  return {
    prompt: (parts, context) => inTurns(prompt(parts, context), context.signal),
    response: (parts, { signal }) => inTurns(hidden(parts, originals(parts), hideWith(operator, undefined)), signal),
    openStream: () => new RecognisedStream(finder, decision, hides ? hideWith(operator, undefined) : undefined),
  };
}

class RecognisedStream implements StreamGuardrail {
  readonly #decision: GuardrailDecision;
  readonly #findings: Record<string, number> = {};
  readonly #stages: ChannelStages;
  /** A warning retains nothing. */
  readonly #passes: boolean;
  #isNew = false;

  /** @param hide undefined: the decision counts */
  constructor(finder: Finder<RecognisedMatch>, decision: GuardrailDecision, hide: Hide | undefined) {
    this.#decision = decision;
    this.#passes = decision.action === 'warn';
    const replace = ({ start, end, entity }: RecognisedMatch, text: string) => {
      this.#findings[entity] = (this.#findings[entity] ?? 0) + 1;
      this.#isNew = true;
      const value = text.slice(start, end);
      return hide === undefined ? value : hide(entity, value);
    };
    const stopAtMatch = hide === undefined && !this.#passes;
    this.#stages = new ChannelStages(() => new StreamRewriter(finder, replace, { stopAtMatch }));
  }

  push(channel: StreamChannel, text: string) {
    const passed = this.#stages.push(channel, text);
    return this.#step(this.#passes ? text : passed);
  }

  end(channel: StreamChannel) {
    const passed = this.#stages.end(channel);
    return this.#step(this.#passes ? '' : passed);
  }

  findings(): Readonly<Record<string, number>> {
    return { ...this.#findings };
  }

  #step(text: string) {
    const decides = this.#isNew && this.#decision.action !== 'allow';
    this.#isNew = false;
    return decides ? { text, decision: this.#decision } : { text };
  }
}
