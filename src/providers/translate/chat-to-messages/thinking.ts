/**
 * The thinking effort of a model. Claude from 4.6 on decides by itself, from an effort (`thinking: adaptive`); earlier
 * models from 3.7 on, and other models behind the same API, get a budget of tokens (`thinking: enabled`). Claude before 3.7
 * cannot think and refuses a budget: an effort is lowered to none there.
 *
 * | Effort | Sent to adaptive models | Budget |
 * |---|---|---|
 * | `none` | `thinking: disabled` | `thinking: disabled` |
 * | `minimal` | `low` | 1,024 |
 * | `low` | `low` | 5,000 |
 * | `medium` | `medium` | 10,000 |
 * | `high` | `high` | 20,000 |
 * | `xhigh`, `max` | the same; lowered where 4.6 lacks it | 30,000 |
 *
 * The client's limit includes thinking, so a budget is lowered to half of it. Where the client sets no limit, the
 * default one is raised by the budget. With thinking Anthropic accepts no temperature other than 1, and with a budget
 * no forced tool: such requests are refused here, since dropping either member would change the request.
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import { loweredEffort, type ReasoningEffort, refusedEffort } from '../responses-to-chat/reasoning-style.ts';
import { isThinking } from './kept-thinking.ts';
import type { MessageTurn } from './messages.ts';

export interface Thinking {
  readonly ok: true;
  /** `thinking` and `output_config`, if they are sent. */
  readonly members: JsonObject;
  /** Output tokens reserved for thinking. */
  readonly budget: number;
}

export interface ThinkingFacts {
  readonly model: string;
  /** The client's own limit on output tokens. */
  readonly maxTokens: number | undefined;
  readonly turns: readonly MessageTurn[];
  readonly toolChoice: unknown;
}

const SMALLEST_BUDGET = 1024;

const budgets: ReadonlyMap<string, number> = new Map([
  ['minimal', SMALLEST_BUDGET],
  ['low', 5000],
  ['medium', 10_000],
  ['high', 20_000],
  ['xhigh', 30_000],
  ['max', 30_000],
]);

const nothing: Thinking = { ok: true, members: {}, budget: 0 };

export function thinkingMembers(chat: JsonObject, facts: ThinkingFacts): Thinking | Refused {
  const effortRead = effortIn(chat);
  if ('ok' in effortRead) return effortRead;
  const { effort, param } = effortRead;
  // A client that sends Anthropic's own `thinking` decides by itself.
  if (effort === undefined || isObject(chat['thinking'])) return nothing;
  const unknownEffort = refusedEffort(effort, param);
  if (unknownEffort !== undefined) return unknownEffort;
  const version = versionOf(facts.model);
  if (version !== undefined && version < FIRST_THINKING) return nothing;
  if (effort === 'none') return { ok: true, members: { thinking: { type: 'disabled' } }, budget: 0 };
  const budget = budgets.get(effort) ?? SMALLEST_BUDGET;
  const levels = adaptiveLevels(facts.model);
  if (levels === undefined && continuesWithoutThinking(facts.turns)) return nothing;
  const { temperature } = chat;
  if (temperature !== undefined && temperature !== null && temperature !== 1) {
    const message = `'temperature' must be 1, or left out, when '${param}' asks the model to think.`;
    return refuse('unsupported_parameter', 'temperature', message);
  }
  if (levels !== undefined) {
    // Newer models return no thinking unless it is requested.
    const thinking = { type: 'adaptive', display: 'summarized' };
    return { ok: true, members: { thinking, output_config: { effort: loweredEffort(effort, levels) } }, budget };
  }
  return withBudget(budget, param, facts);
}

function withBudget(
  requestedBudget: number,
  param: string,
  { maxTokens, toolChoice }: ThinkingFacts,
): Thinking | Refused {
  if (isObject(toolChoice) && (toolChoice['type'] === 'any' || toolChoice['type'] === 'tool')) {
    const message = `'tool_choice' cannot force a tool when '${param}' asks this model to think.`;
    return refuse('unsupported_parameter', 'tool_choice', message);
  }
  if (maxTokens !== undefined && maxTokens <= SMALLEST_BUDGET) {
    const message = `The limit on output tokens must be above ${SMALLEST_BUDGET} when '${param}' asks the model to think.`;
    return refuse('invalid_value', 'max_tokens', message);
  }
  const half = maxTokens === undefined ? requestedBudget : Math.floor(maxTokens / 2);
  const budget = Math.max(SMALLEST_BUDGET, Math.min(requestedBudget, half));
  return { ok: true, members: { thinking: { type: 'enabled', budget_tokens: budget } }, budget };
}

interface EffortRead {
  readonly effort: string | undefined;
  readonly param: string;
}

function effortIn({ reasoning, reasoning_effort: flat }: JsonObject): EffortRead | Refused {
  if (isObject(reasoning)) {
    const { effort: _effort, summary: _summary, generate_summary: _older, ...rest } = reasoning;
    const other = Object.keys(rest).find((member) => rest[member] !== null && rest[member] !== undefined);
    if (other !== undefined) {
      const message = `'reasoning.${other}' cannot be honoured: an Anthropic model accepts only an effort.`;
      return refuse('unsupported_parameter', `reasoning.${other}`, message);
    }
  }
  const effort = filled(flat);
  if (effort !== undefined) return { effort, param: 'reasoning_effort' };
  return { effort: isObject(reasoning) ? filled(reasoning['effort']) : undefined, param: 'reasoning.effort' };
}

const FIRST_THINKING = 307;
const FIRST_ADAPTIVE = 406;
const upToMax: readonly ReasoningEffort[] = ['low', 'medium', 'high', 'xhigh', 'max'];

/** The effort levels of an adaptive model; undefined for one that gets a budget. */
function adaptiveLevels(model: string): readonly ReasoningEffort[] | undefined {
  const name = claudeName(model);
  if (name === undefined) return undefined;
  const version = versionOf(model);
  if (version === undefined || version > FIRST_ADAPTIVE) return upToMax;
  if (version < FIRST_ADAPTIVE) return undefined;
  return name.includes('opus') ? ['low', 'medium', 'high', 'max'] : ['low', 'medium', 'high'];
}

function claudeName(model: string): string | undefined {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase();
  return name.includes('claude') ? name : undefined;
}

/** The version in names such as `claude-opus-4-6` and `claude-3-7-sonnet`, as 406 and 307; eight digits are a date. */
function versionOf(model: string): number | undefined {
  const name = claudeName(model);
  if (name === undefined) return undefined;
  const found = /(?:^|[-.])(\d{1,2})(?:[-.](\d{1,2})(?!\d))?(?=[-.@:]|$)/.exec(name);
  return found === null ? undefined : Number(found[1]) * 100 + Number(found[2] ?? 0);
}

/**
 * Whether the request continues a turn whose thinking is lost: the turn has tool calls, and the client did not send
 * back the thinking before them. Anthropic would refuse it with a budget, and accepts it without thinking.
 */
function continuesWithoutThinking(turns: readonly MessageTurn[]): boolean {
  const [before, last] = turns.slice(-2);
  if (before?.role !== 'assistant' || last?.content[0]?.['type'] !== 'tool_result') return false;
  return !isThinking(before.content[0]);
}
