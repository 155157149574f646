/** Anthropic's message and the events it is streamed in ("Messages API", "Streaming messages"). */
import type { MessageUsage } from './usage.ts';

/** What is known of a message before anything was said. */
export interface MessageShell {
  /** `msg_…` */
  readonly id: string;
  /** The model as the client named it. */
  readonly model: string;
  /** What the client gave as `stop_sequences`. */
  readonly stopSequences: readonly string[];
  readonly thoughts: Thoughts;
}

/**
 * What becomes of a model's reasoning. `shown`: thinking blocks. `sealed`: thinking blocks without text, which carry
 * it in their signature. `left_out`: the client did not ask for any.
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
  /** An object, unless the model wrote something else: then the text it wrote. */
  readonly input: unknown;
  /** What the provider wants back with the call, such as a thought signature. */
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

/** One whole server-sent event, to be handed to the socket in one write. */
export function encodeMessageEvent(event: { readonly type: string }): Buffer {
  return Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}
