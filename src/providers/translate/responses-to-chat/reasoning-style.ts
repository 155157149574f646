/** How a provider wants to be told how hard to think, and how it takes back what a model thought before. */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';

export const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];

export interface ReasoningStyle {
  /** `flat`: member `reasoning_effort`. `object`: member `reasoning` as it is. `omit`: not sent. */
  readonly effort: 'flat' | 'object' | 'omit';
  /** The efforts the provider knows; another one is lowered to the nearest of these. */
  readonly levels: readonly ReasoningEffort[];
  /** Member of an assistant message that carries earlier reasoning; with `omit` it is dropped. */
  readonly replay: 'reasoning_content' | 'reasoning' | 'omit';
  /** `omit`: a request with `extra_content` in its messages would be refused, so a vendor's own is not sent. */
  readonly extraContent?: 'omit';
}

/** What most servers that speak chat completions understand. */
export const plainReasoning: ReasoningStyle = {
  effort: 'flat',
  levels: ['none', 'minimal', 'low', 'medium', 'high'],
  replay: 'reasoning_content',
};

/**
 * The hardest known level that is not above the wanted one; below all of them, the easiest. Thinking is never
 * switched off by lowering: only `none` becomes `none`. A level nobody knows is left for the provider to judge.
 */
export function loweredEffort(wanted: string, levels: readonly ReasoningEffort[]): string {
  const known = reasoningEfforts.find((effort) => effort === wanted);
  if (known === undefined || levels.includes(known)) return wanted;
  const thinking = reasoningEfforts.filter((effort) => effort !== 'none' && levels.includes(effort));
  const place = reasoningEfforts.indexOf(known);
  const below = thinking.filter((effort) => reasoningEfforts.indexOf(effort) < place);
  return below.at(-1) ?? thinking[0] ?? wanted;
}

const honoured = new Set(['effort', 'summary', 'generate_summary']);
const byNotAsking: ReadonlyMap<string, string> = new Map([
  ['context', 'auto'],
  ['mode', 'standard'],
]);

/**
 * What of a Responses `reasoning` object a chat provider cannot be told: how a model treats the thoughts of earlier
 * turns (`context`), a more thorough mode (`mode`), and anything unknown, where there is no object to put it into.
 */
export function refusedReasoning(reasoning: unknown, style: ReasoningStyle): Refused | undefined {
  if (!isObject(reasoning)) return undefined;
  for (const member in reasoning) {
    const value = reasoning[member];
    if (value === null || value === '' || honoured.has(member) || value === byNotAsking.get(member)) continue;
    if (style.effort === 'object' && !byNotAsking.has(member)) continue;
    const param = `reasoning.${member}`;
    return refuse('unsupported_parameter', param, `This model's provider cannot be told '${param}'.`);
  }
  return undefined;
}

/** The request members for a Responses `reasoning` object; `summary` is not among them, since it is always given. */
export function reasoningMembers(reasoning: unknown, style: ReasoningStyle): JsonObject {
  if (!isObject(reasoning) || style.effort === 'omit') return {};
  const wanted = filled(reasoning['effort']);
  const effort = wanted === undefined ? undefined : loweredEffort(wanted, style.levels);
  if (style.effort === 'flat') return effort === undefined ? {} : { reasoning_effort: effort };
  const kept = Object.fromEntries(
    Object.entries(reasoning).filter(
      ([member, value]) => value !== null && !honoured.has(member) && !byNotAsking.has(member),
    ),
  );
  const members = effort === undefined ? kept : { ...kept, effort };
  return Object.keys(members).length === 0 ? {} : { reasoning: members };
}
