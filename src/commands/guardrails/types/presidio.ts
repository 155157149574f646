/** `presidio`: personal data as a Presidio analyzer finds it (`POST /analyze` of its HTTP API). */
import { z } from 'zod';
import { parseExactly } from '../../../json/exact-json.ts';
import {
  allowed,
  type CompiledGuardrail,
  type EvaluationContext,
  type GuardrailResult,
  type GuardrailServices,
  type GuardrailType,
  type TextPart,
} from '../guardrail-type.ts';
import type { Placeholders } from '../placeholders.ts';
import { inTurns, joinedRuns, overJoints, withReplacements } from '../text/stream-rewriter.ts';
import { changedTexts, type Hide, hideKnownValues, hideRecorded, hideWith, operators } from './anonymise.ts';
import {
  allRoles,
  inBatches,
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

/** Such parts would be repeated in errors, or cut off by the path of the analyzer. */
function hasMoreThanPath(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password, search, hash } = new URL(url);
  return username !== '' || password !== '' || search !== '' || hash !== '';
}

const names = z.string().max(10_000).default('');

const config = z.strictObject({
  analyzer_url: z
    .url({ protocol: /^https?$/ })
    .refine((url) => !hasMoreThanPath(url), { error: () => 'must have no user, password, query or fragment' }),
  language: z.string().min(2).max(10).default('en'),
  entities: names,
  block_entities: names,
  score_threshold: z.number().min(0).max(1).default(0.5),
  action: z.enum(['anonymize', 'block', 'respond', 'warn']).default('anonymize'),
  operator: z.enum(operators).default('replace'),
  restore: yesOrNo.default(true),
  roles: rolesMember(allRoles),
  ...matchActionMembers,
});

type Config = z.infer<typeof config>;

/** The members of the analyzer's answer that are read. Offsets count Unicode code points. */
const analyzed = z.array(
  z.object({ entity_type: z.string().min(1), start: z.int().min(0), end: z.int().min(0), score: z.number() }),
);

const concurrentCalls = 8;

export const presidio: GuardrailType<Config> = {
  type: 'presidio',
  label: 'Presidio',
  description: 'Personal data as a Presidio analyzer finds it. Streams are collected before they are analyzed.',
  phases: ['prompt', 'response', 'stream'],
  mutating: true,
  calls: 'server',
  serverAddress: 'analyzer_url',
  config,
  defaults: {
    language: 'en',
    entities: '',
    block_entities: '',
    score_threshold: 0.5,
    action: 'anonymize',
    operator: 'replace',
    restore: true,
    roles: allRoles,
    ...matchActionDefaults,
  },
  fields: [
    {
      key: 'analyzer_url',
      label: 'Analyzer URL',
      input: 'text',
      required: true,
      placeholder: 'http://presidio-analyzer:3000',
      scope: '',
    },
    { key: 'language', label: 'Language', input: 'text', required: false, scope: '' },
    {
      key: 'entities',
      label: 'Entities',
      input: 'textarea',
      required: false,
      help: 'One per line or separated by commas. Empty: all.',
      scope: '',
    },
    {
      key: 'block_entities',
      label: 'Entities that block',
      input: 'textarea',
      required: false,
      help: 'Whatever the action is.',
      scope: '',
    },
    { key: 'score_threshold', label: 'Lowest score', input: 'number', required: false, help: '0 to 1', scope: '' },
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
      options: operators.map((value) => ({ value, label: value })),
      scope: '',
    },
    yesOrNoField('restore', 'Restore values in answers'),
    rolesField(),
    ...matchActionFields,
  ],
  summary: ({ action, entities }) => `${action} • ${listOf(entities).join(', ') || 'all entities'}`,
  changesTexts: ({ action }) => action === 'anonymize',
  compile: (given, services) => compiled(given, services),
};

interface Analyzed {
  readonly start: number;
  readonly end: number;
  readonly entity: string;
}

function compiled(given: Config, { fetch }: GuardrailServices): CompiledGuardrail {
  const { action, operator, restore } = given;
  const hides = action === 'anonymize';
  const decision = matchDecision(action, given);
  const blocking = new Set(listOf(given.block_entities));
  const blocks = matchDecision('block', given);
  const roles = new Set(given.roles);
  const wanted = listOf(given.entities);
  const url = `${given.analyzer_url.replace(/\/+$/, '')}/analyze`;

  const analyze = async (text: string, signal: AbortSignal): Promise<readonly Analyzed[]> => {
    const entities = wanted.length === 0 ? {} : { entities: [...new Set([...wanted, ...blocking])] };
    const body = { text, language: given.language, score_threshold: given.score_threshold, ...entities };
    const reply = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify(body),
      signal,
    });
    if (reply.status !== 200) throw new Error(`the Presidio analyzer at ${url} returned status ${reply.status}`);
    const found = analyzed.safeParse(parseExactly(await reply.text()));
    if (!found.success) throw new Error(`the Presidio analyzer at ${url} returned no list of results`);
    return withoutOverlaps(
      found.data.filter(({ score }) => score >= given.score_threshold),
      text,
    );
  };

  const evaluate = async (
    parts: readonly TextPart[],
    texts: readonly string[],
    isRead: (part: TextPart) => boolean,
    hide: Hide,
    signal: AbortSignal,
    restored?: Placeholders,
  ): Promise<GuardrailResult> => {
    const read = parts.map((part) => part.text.trim() !== '' && isRead(part));
    const results = await inBatches(
      texts.filter((_, index) => read[index] === true),
      concurrentCalls,
      (text) => analyze(text, signal),
    );
    const findings: Record<string, number> = {};
    const rewritten = texts.map((text, index) => {
      const found = read[index] === true ? (results.get(text) ?? []) : [];
      for (const { entity } of found) findings[entity] = (findings[entity] ?? 0) + 1;
      return hides ? withHidden(text, found, hide) : text;
    });
    for (const run of joinedRuns(parts, isRead)) {
      const own = run.map((index) => rewritten[index] ?? '');
      const joined = own.join('');
      if (joined.trim() === '') continue;
      // What contains a placeholder is no value: its text was analyzed before.
      const found = overJoints(own, await analyze(joined, signal)).filter(
        ({ start, end }) => !joined.slice(start, end).includes('<'),
      );
      for (const { entity } of found) findings[entity] = (findings[entity] ?? 0) + 1;
      if (!hides) continue;
      const replaced = found.map(({ start, end, entity }) => ({
        start,
        end,
        replacement: hide(entity, joined.slice(start, end)),
      }));
      for (const [at, text] of withReplacements(own, replaced).entries()) rewritten[run[at] ?? -1] = text;
    }
    const entities = Object.keys(findings);
    if (entities.some((entity) => blocking.has(entity))) return { decision: blocks, findings };
    if (!hides) return entities.length > 0 ? { decision, findings } : { decision: allowed };
    const everywhere = restored === undefined ? rewritten : await inTurns(hideRecorded(parts, rewritten, restored));
    return { decision: allowed, texts: changedTexts(parts, everywhere), ...(entities.length > 0 && { findings }) };
  };
  const originals = (parts: readonly TextPart[]) => parts.map(({ text }) => text);

  return {
    async prompt(parts: readonly TextPart[], context: EvaluationContext) {
      const restored = hides && restore && operator === 'replace' ? context.placeholders : undefined;
      const texts = restored === undefined ? originals(parts) : await inTurns(hideKnownValues(parts, context));
      const isRead = ({ role, kind }: TextPart) => roles.has(role) && kind !== 'definition' && kind !== 'other';
      return evaluate(parts, texts, isRead, hideWith(operator, restored), context.signal, restored);
    },
    response: (parts, { signal }) =>
      evaluate(parts, originals(parts), isConversation, hideWith(operator, undefined), signal),
  };
}

function listOf(text: string): string[] {
  return text
    .split(/[\s,]+/)
    .map((name) => name.toUpperCase())
    .filter((name) => name !== '');
}

/** In the order of the text, in UTF-16 units. Of two that overlap, the one with the higher score, then the longer. */
function withoutOverlaps(found: z.infer<typeof analyzed>, text: string): Analyzed[] {
  const unitOf = unitsOfPoints(text);
  const kept: Analyzed[] = [];
  const best = found.toSorted(
    (one, other) => other.score - one.score || other.end - other.start - (one.end - one.start),
  );
  for (const { entity_type, start, end } of best) {
    const one = { start: unitOf(start), end: unitOf(end), entity: entity_type };
    if (one.end <= one.start) throw new Error('the analyzer found a value that ends before it begins');
    const isFree = kept.every((other) => one.end <= other.start || one.start >= other.end);
    // A placeholder of another finding is no value.
    if (isFree && !/^<?[A-Z][A-Z0-9_]*_\d+>?$/.test(text.slice(one.start, one.end))) kept.push(one);
  }
  return kept.sort((one, other) => one.start - other.start);
}

/** Converts an index of code points to one of UTF-16 units. */
function unitsOfPoints(text: string): (point: number) => number {
  if (!/[\ud800-\udfff]/.test(text)) return (point) => Math.min(point, text.length);
  const starts: number[] = [];
  for (let unit = 0; unit < text.length; unit += (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1) starts.push(unit);
  return (point) => starts[point] ?? text.length;
}

function withHidden(text: string, found: readonly Analyzed[], hide: Hide): string {
  let result = '';
  let from = 0;
  for (const { start, end, entity } of found) {
    result += text.slice(from, start) + hide(entity, text.slice(start, end));
    from = end;
  }
  return result + text.slice(from);
}
