/** Anthropic's message and its stream events ("Messages API", "Streaming messages"). */
import type { MessageUsage } from './usage.ts';

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
export type Thoughts = 'shown' | 'sealed' | 'left_out';

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
  /** An object, unless the model wrote another text: then that text. */
  readonly input: unknown;
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

/** One whole server-sent event, for a single write to the socket. */
export function encodeMessageEvent(event: { readonly type: string }): Buffer {
  return Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}
