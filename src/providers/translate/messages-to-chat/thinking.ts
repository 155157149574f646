/**
 * Thinking: the effort of a model, and the delivery of its reasoning.
 *
 * | `thinking`, `output_config.effort` | Effort |
 * |---|---|
 * | `disabled`, or neither of the two | none is sent: the model's default applies |
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

/** The effort of a Messages request, with the names of chat completions. */
export function effortOf({ thinking, output_config: output }: JsonObject): string | undefined {
  const type = isObject(thinking) ? filled(thinking['type']) : undefined;
  if (type === 'disabled') return undefined;
  const effort = isObject(output) ? filled(output['effort']) : undefined;
  if (effort !== undefined || type === undefined || !isObject(thinking)) return effort;
  const budget = thinking['budget_tokens'];
  if (type !== 'enabled' || typeof budget !== 'number') return 'medium';
  if (budget < LOW_BELOW) return 'low';
  return budget < MEDIUM_BELOW ? 'medium' : 'high';
}

/** A client that requested no thinking gets no thinking blocks: it may read the first block as the answer. */
export function thoughtsFor({ thinking }: JsonObject): Thoughts {
  const type = isObject(thinking) ? filled(thinking['type']) : undefined;
  if (type === undefined || type === 'disabled' || !isObject(thinking)) return 'left_out';
  return thinking['display'] === 'omitted' ? 'sealed' : 'shown';
}

/**
 * The signature of a thinking block created by the gateway. Clients send signatures back unchanged, so a sealed block
 * returns its reasoning to a model that needs it; and the signature shows which blocks are the gateway's.
 */
export function signatureOf(thoughts: string): string {
  return carriedForm({ text: thoughts, extra: undefined });
}

/** The reasoning in a thinking block of an earlier turn; empty when only its creator can read it. */
export function thoughtIn({ thinking, signature }: JsonObject): string {
  return filled(thinking) ?? readCarried(signature)?.text ?? '';
}

/**
 * Messages without the gateway's additions that Anthropic would refuse: thinking blocks that it did not sign, and
 * `extra_content` of tool calls. Undefined when there are none.
 */
export function anthropicMessages(messages: unknown): unknown[] | undefined {
  if (!Array.isArray(messages)) return undefined;
  let changed = false;
  const kept = messages.map((message: unknown) => {
    if (!isObject(message) || !Array.isArray(message['content'])) return message;
    const before: readonly unknown[] = message['content'];
    const content = before.flatMap(anthropicBlocks);
    if (content.length === before.length && content.every((block, index) => block === before[index])) return message;
    changed = true;
    return { ...message, content };
  });
  return changed ? kept : undefined;
}

function anthropicBlocks(block: unknown): unknown[] {
  if (!isObject(block)) return [block];
  if (block['type'] === 'thinking' && isCarried(block['signature'])) return [];
  if (block['type'] !== 'tool_use' || block['extra_content'] === undefined) return [block];
  const { extra_content: _extra, ...rest } = block;
  return [rest];
}
