/**
 * Thinking: how hard a model is to think, and what becomes of what it thought.
 *
 * | `thinking`, `output_config.effort` | Effort |
 * |---|---|
 * | `disabled`, or neither of the two | none is given: the model does what it does by itself |
 * | `output_config.effort` | the same |
 * | `enabled` with a budget below 10,000 tokens / below 20,000 / of more | `low` / `medium` / `high` |
 * | `adaptive`, and any other type | `medium` |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject } from '../json.ts';
import { carriedForm, isCarried, readCarried } from '../responses-to-chat/carried-reasoning.ts';
import type { Thoughts } from './message-object.ts';

const LOW_BELOW = 10_000;
const MEDIUM_BELOW = 20_000;

/** The effort a Messages request asks for, as chat completions name it. */
export function effortOf(body: JsonObject): string | undefined {
  const { thinking, output_config: output } = body;
  const type = isObject(thinking) ? filled(thinking['type']) : undefined;
  if (type === 'disabled') return undefined;
  const effort = isObject(output) ? filled(output['effort']) : undefined;
  if (effort !== undefined || type === undefined || !isObject(thinking)) return effort;
  const budget = thinking['budget_tokens'];
  if (type !== 'enabled' || typeof budget !== 'number') return 'medium';
  if (budget < LOW_BELOW) return 'low';
  return budget < MEDIUM_BELOW ? 'medium' : 'high';
}

/** A client that asked for no thinking gets no thinking blocks: it may take the first block for the answer. */
export function thoughtsFor({ thinking }: JsonObject): Thoughts {
  const type = isObject(thinking) ? filled(thinking['type']) : undefined;
  if (type === undefined || type === 'disabled' || !isObject(thinking)) return 'left_out';
  return thinking['display'] === 'omitted' ? 'sealed' : 'shown';
}

/**
 * The signature of a thinking block that is made here. A client hands signatures back as they are, so a sealed block
 * brings its thoughts back to a model that wants them; and it shows whose block it is.
 */
export function signatureOf(thoughts: string): string {
  return carriedForm({ text: thoughts, extra: undefined });
}

/** What was thought in a thinking block of an earlier turn; empty when only its maker could tell. */
export function thoughtIn({ thinking, signature }: JsonObject): string {
  return filled(thinking) ?? readCarried(signature)?.text ?? '';
}

/**
 * Messages without what was put into them here and Anthropic would refuse: thinking blocks that it did not sign, and
 * `extra_content` of tool calls. Undefined when there is nothing of the kind.
 */
export function asAnthropicTakesThem(messages: unknown): unknown[] | undefined {
  if (!Array.isArray(messages)) return undefined;
  let changed = false;
  const kept = messages.map((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message['content'])) return message;
    const before: readonly unknown[] = message['content'];
    const content = before.flatMap(asAnthropicTakesIt);
    if (content.length === before.length && content.every((block, index) => block === before[index])) return message;
    changed = true;
    return { ...message, content };
  });
  return changed ? kept : undefined;
}

function asAnthropicTakesIt(block: unknown): unknown[] {
  if (!isObject(block)) return [block];
  if (block['type'] === 'thinking' && isCarried(block['signature'])) return [];
  if (block['type'] !== 'tool_use' || block['extra_content'] === undefined) return [block];
  const { extra_content: _extra, ...rest } = block;
  return [rest];
}
