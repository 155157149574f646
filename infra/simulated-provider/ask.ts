/** A request to a simulated model, in the form that all dialects are read into. */
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

/** A request, freed of its dialect. */
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
  /** Undefined leaves it to the prompt: one that says "think" is thought about. */
  readonly reasoning: boolean | undefined;
  readonly seed: number;
  /** Length of a text that nothing else decides, in tokens. */
  readonly length: number;
  /** Answered as it is, when given. */
  readonly text: string | undefined;
}
