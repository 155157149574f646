/** What guardrails see of a request or an answer: its texts, independent of the dialect. */

export type TextRole = 'system' | 'user' | 'assistant' | 'tool';

export type TextKind =
  /** Written by the author of the message. */
  | 'text'
  | 'refusal'
  | 'reasoning'
  /** A string of the arguments of a tool call, decoded; never the JSON text around it. */
  | 'tool_arguments'
  | 'tool_result'
  /** Descriptions in tools and schemas. */
  | 'definition'
  /** Metadata and names of end users. */
  | 'identifier'
  /** Settings, ids, and names of members: values in them are hidden, and no other rule applies. */
  | 'other';

/** One text of a request or of a whole answer. */
export interface TextPart {
  readonly role: TextRole;
  readonly kind: TextKind;
  /** Parts of one message have the same number; numbers ascend in the order of the conversation. -1: outside messages. */
  readonly message: number;
  readonly text: string;
  /** The index of the part that this one continues: a reader of the request sees the two without a gap. */
  readonly follows?: number;
}

/**
 * A change of the system text of a request. `replace` removes every system text and puts `text` in front; `add` puts a
 * system message in front of the others.
 */
export interface SystemChange {
  readonly mode: 'add' | 'replace';
  readonly text: string;
}

/** One text of a stream: texts with the same key continue each other. */
export interface StreamChannel {
  /** Unique in the answer, for example `choice 0 text` or `item 2 arguments`. */
  readonly key: string;
  readonly kind: TextKind;
  /** The text is a JSON text, whose strings and numbers are what rules apply to. */
  readonly isJson: boolean;
}
