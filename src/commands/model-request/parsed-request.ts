/** The body of a model request, as its dialect reads it. */
import type { Refusal } from '../refusal.ts';
import { OUTPUT_LIMITS } from './token-estimate.ts';

/** The provider that a refused request named. */
interface ProviderName {
  readonly name: string;
  readonly type: string;
}

/** A request body, parsed once. */
export interface ParsedRequest {
  /** The selector as the client wrote it; empty when no model is called. */
  readonly model: string;
  /** The routing hint in the body's `provider` member. */
  readonly provider: string | undefined;
  readonly stream: boolean;
  readonly json: Record<string, unknown>;
}

/**
 * Members of requests that name what is called, its input, or an object, or that decide what it costs. A body with one of
 * them in another spelling is not passed on: some servers ignore the case of names.
 */
export const READ_MEMBERS: ReadonlySet<string> = new Set([
  ...['model', 'provider', 'stream', 'messages', 'input', 'instructions', 'system', 'prompt', 'suffix', 'metadata'],
  ...['tools', 'tool_choice', 'functions', 'response_format', 'text', 'reasoning', 'thinking', 'modalities', 'audio'],
  ...['background', 'store', 'previous_response_id', 'conversation', 'container', 'service_tier', 'web_search_options'],
  ...['n', 'best_of', 'options', 'min_tokens', 'max_tool_calls', ...OUTPUT_LIMITS],
]);

export type ReadResult =
  | { readonly ok: true; readonly parsedRequest: ParsedRequest }
  | {
      readonly ok: false;
      readonly refusal: Refusal;
      /** What is known of the request, to be recorded with the refusal. */
      readonly known?: { readonly parsedRequest: ParsedRequest; readonly provider: ProviderName | undefined };
    };
