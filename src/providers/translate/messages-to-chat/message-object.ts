/** Anthropic's message and its stream events ("Messages API", "Streaming messages"). */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, tokensOrZero } from '../json.ts';
import { carriedForm, isCarried, readCarried } from '../responses-to-chat/reasoning.ts';

interface MessageUsage {
  /** Without tokens that were read from, or written to, a cache. */
  readonly input_tokens: number;
  readonly cache_creation_input_tokens: number;
  readonly cache_read_input_tokens: number;
  readonly output_tokens: number;
  readonly output_tokens_details?: { readonly thinking_tokens: number };
}

/** The usage of a chat completion in Anthropic's format, which has no value for "unknown": 0. */
export function messageUsage(usage: unknown): MessageUsage {
  const given = isObject(usage) ? usage : {};
  const prompt = isObject(given['prompt_tokens_details']) ? given['prompt_tokens_details'] : {};
  const completion = isObject(given['completion_tokens_details']) ? given['completion_tokens_details'] : {};
  const read = tokensOrZero(prompt['cached_tokens'] ?? given['prompt_cache_hit_tokens']);
  const written = tokensOrZero(prompt['cache_write_tokens']);
  const thinking = completion['reasoning_tokens'];
  return {
    input_tokens: Math.max(0, tokensOrZero(given['prompt_tokens']) - read - written),
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: tokensOrZero(given['completion_tokens']),
    ...(typeof thinking === 'number' ? { output_tokens_details: { thinking_tokens: thinking } } : {}),
  };
}

/** The message before any content: values known from the request. */
export interface MessageShell {
  /** `msg_…` */
  readonly id: string;
  /** The model name that the client sent. */
  readonly model: string;
  /** The client's `stop_sequences`. */
  readonly stopSequences: readonly string[];
  readonly thoughts: Thoughts;
}

/**
 * How a model's reasoning is delivered. `shown`: as thinking blocks. `sealed`: as thinking blocks without text, which
 * carry it in their signature. `left_out`: not at all, because the client did not request it.
 */
type Thoughts = 'shown' | 'sealed' | 'left_out';

export interface TextBlock {
  readonly type: 'text';
  readonly text: string;
}

export interface ThinkingBlock {
  readonly type: 'thinking';
  readonly thinking: string;
  readonly signature: string;
}

export interface ToolUseBlock {
  readonly type: 'tool_use';
  readonly id: string;
  readonly name: string;
  /** Another text that the model wrote is in the member that Anthropic recommends ("Fine-grained tool streaming"). */
  readonly input: object;
  /** Data that the provider requires back with the call, such as a thought signature. */
  readonly extra_content?: unknown;
}

export type ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock;

export type StopReason = 'end_turn' | 'max_tokens' | 'stop_sequence' | 'tool_use' | 'refusal';

export interface Message {
  readonly id: string;
  readonly type: 'message';
  readonly role: 'assistant';
  readonly model: string;
  readonly content: readonly ContentBlock[];
  readonly stop_reason: StopReason | null;
  readonly stop_sequence: string | null;
  readonly usage: MessageUsage;
}

export type BlockDelta =
  | { readonly type: 'text_delta'; readonly text: string }
  | { readonly type: 'thinking_delta'; readonly thinking: string }
  | { readonly type: 'signature_delta'; readonly signature: string }
  | { readonly type: 'input_json_delta'; readonly partial_json: string };

export type MessageEvent =
  | { readonly type: 'message_start'; readonly message: Message }
  | { readonly type: 'content_block_start'; readonly index: number; readonly content_block: ContentBlock }
  | { readonly type: 'content_block_delta'; readonly index: number; readonly delta: BlockDelta }
  | { readonly type: 'content_block_stop'; readonly index: number }
  | {
      readonly type: 'message_delta';
      readonly delta: Pick<Message, 'stop_reason' | 'stop_sequence'>;
      readonly usage: MessageUsage;
    }
  | { readonly type: 'message_stop' };

// Thinking: the effort of a model, and the delivery of its reasoning.
//
// | `thinking`, `output_config.effort` | Effort |
// |---|---|
// | `disabled`, or neither of the two | none is sent: the model's default applies |
// | `output_config.effort` | the same |
// | `enabled` with a budget below 10,000 tokens / below 20,000 / of more | `low` / `medium` / `high` |
// | `adaptive`, and any other type | `medium` |

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
