/** A request to a simulated model, in the form that is common to all dialects. */
import type { Json } from './json.ts';
import type { Turn } from './recall.ts';

export interface Tool {
  readonly name: string;
  readonly parameters: Json;
  /** Takes free text instead of JSON: OpenAI's custom tools. */
  readonly freeform?: boolean;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

export type Format =
  | { readonly type: 'text' }
  | { readonly type: 'json' }
  | { readonly type: 'schema'; readonly schema: Json };

/** A request, independent of its dialect. */
export interface Ask {
  readonly model: string;
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls: boolean;
  /** Reasoning counts towards it. */
  readonly maxTokens: number | undefined;
  readonly stop: readonly string[];
  readonly format: Format;
  /** Undefined: the model reasons when the prompt contains "think". */
  readonly reasoning: boolean | undefined;
  readonly seed: number;
  /** Default length of a text, in tokens. */
  readonly length: number;
  /** The exact answer, when given. */
  readonly text: string | undefined;
}
