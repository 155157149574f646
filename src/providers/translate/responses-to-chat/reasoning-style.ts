/** A provider's members for the reasoning effort, and for the reasoning of earlier turns. */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';

export const reasoningEfforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
export type ReasoningEffort = (typeof reasoningEfforts)[number];

export interface ReasoningStyle {
  /** `flat`: member `reasoning_effort`. `object`: member `reasoning`, unchanged. `omit`: not sent. */
  readonly effort: 'flat' | 'object' | 'omit';
  /** The provider's effort levels; another one is lowered to the nearest of these. */
  readonly levels: readonly ReasoningEffort[];
  /** Member of an assistant message that carries earlier reasoning; with `omit` it is dropped. */
  readonly replay: 'reasoning_content' | 'reasoning' | 'omit';
  /** `omit`: vendors' `extra_content` is not sent, since the provider would refuse the request. */
  readonly extraContent?: 'omit';
}

/** The style that most servers with chat completions support. */
export const plainReasoning: ReasoningStyle = {
  effort: 'flat',
  levels: ['none', 'minimal', 'low', 'medium', 'high'],
  replay: 'reasoning_content',
};

/** Refuses an effort that is no level of any provider, since it would be forwarded. @param param the client's name of it */
export function refusedEffort(effort: unknown, param: string): Refused | undefined {
  if (effort === undefined || effort === null || effort === '') return undefined;
  if (reasoningEfforts.some((level) => level === effort)) return undefined;
  const levels = reasoningEfforts.map((level) => `'${level}'`).join(', ');
  const given = typeof effort === 'string' ? `'${effort.slice(0, 64)}'` : `a value of type ${typeof effort}`;
  return refuse('invalid_value', param, `Invalid value for '${param}': expected one of ${levels}, but got ${given}.`);
}

/**
 * The highest known level that is not above the requested one; below all of them, the lowest. Reasoning is never
 * switched off by lowering: only `none` becomes `none`. An unknown level is sent unchanged: in a chat completion, which is
 * forwarded to a provider that may have levels of its own.
 */
export function loweredEffort(requestedEffort: string, levels: readonly ReasoningEffort[]): string {
  const known = reasoningEfforts.find((effort) => effort === requestedEffort);
  if (known === undefined || levels.includes(known)) return requestedEffort;
  const thinking = reasoningEfforts.filter((effort) => effort !== 'none' && levels.includes(effort));
  const place = reasoningEfforts.indexOf(known);
  const below = thinking.filter((effort) => reasoningEfforts.indexOf(effort) < place);
  return below.at(-1) ?? thinking[0] ?? requestedEffort;
}

const honoured = new Set(['effort', 'summary', 'generate_summary']);
const byOmission: ReadonlyMap<string, string> = new Map([
  ['context', 'auto'],
  ['mode', 'standard'],
]);

/**
 * Refuses members of a Responses `reasoning` object that a chat provider cannot get: the treatment of earlier reasoning
 * (`context`), a more thorough mode (`mode`), and anything unknown, when the provider has no `reasoning` object.
 */
export function refusedReasoning(reasoning: unknown, style: ReasoningStyle): Refused | undefined {
  if (!isObject(reasoning)) return undefined;
  const effort = refusedEffort(reasoning['effort'], 'reasoning.effort');
  if (effort !== undefined) return effort;
  for (const member in reasoning) {
    const value = reasoning[member];
    if (value === null || value === '' || honoured.has(member) || value === byOmission.get(member)) continue;
    if (style.effort === 'object' && !byOmission.has(member)) continue;
    const param = `reasoning.${member}`;
    return refuse('unsupported_parameter', param, `This model's provider does not support '${param}'.`);
  }
  return undefined;
}

/** The request members for a Responses `reasoning` object; `summary` is not among them, since it is always returned. */
export function reasoningMembers(reasoning: unknown, style: ReasoningStyle): JsonObject {
  if (!isObject(reasoning) || style.effort === 'omit') return {};
  const requestedEffort = filled(reasoning['effort']);
  const effort = requestedEffort === undefined ? undefined : loweredEffort(requestedEffort, style.levels);
  if (style.effort === 'flat') return effort === undefined ? {} : { reasoning_effort: effort };
  const kept = Object.fromEntries(
    Object.entries(reasoning).filter(
      ([member, value]) => value !== null && !honoured.has(member) && !byOmission.has(member),
    ),
  );
  const members = effort === undefined ? kept : { ...kept, effort };
  return Object.keys(members).length === 0 ? {} : { reasoning: members };
}
