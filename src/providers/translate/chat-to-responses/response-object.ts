/**
 * The Response object that every client accepts: all 31 members that Open Responses (2026-04-24) requires, with `null`
 * for unknown values, and both sets of names for the details of usage.
 */
import type { JsonObject } from '../json.ts';

export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';
export type ItemStatus = 'in_progress' | 'completed' | 'incomplete';

export interface TokenLogprob {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

export interface Logprob extends TokenLogprob {
  readonly top_logprobs: readonly TokenLogprob[];
}

export interface OutputText {
  readonly type: 'output_text';
  readonly text: string;
  readonly annotations: readonly JsonObject[];
  readonly logprobs: readonly Logprob[];
}

export interface RefusalPart {
  readonly type: 'refusal';
  readonly refusal: string;
}

export type MessagePart = OutputText | RefusalPart;

export interface MessageItem {
  readonly id: string;
  readonly type: 'message';
  readonly status: ItemStatus;
  readonly role: 'assistant';
  readonly content: readonly MessagePart[];
  /** Data that a vendor requires back with this message. */
  readonly extra_content?: JsonObject;
}

export interface SummaryText {
  readonly type: 'summary_text';
  readonly text: string;
}

export interface ReasoningText {
  readonly type: 'reasoning_text';
  readonly text: string;
}

/** The reasoning is in `summary`, or in `content` for a client that requested it there; never in both. */
export interface ReasoningItem {
  readonly id: string;
  readonly type: 'reasoning';
  readonly status: ItemStatus;
  readonly summary: readonly SummaryText[];
  readonly content?: readonly ReasoningText[];
  /** The same in a form to be sent back unread (see carried-reasoning.ts), for a client that requested it. */
  readonly encrypted_content?: string;
  /** Data that a vendor requires back with this thought, for example its signature. */
  readonly extra_content?: JsonObject;
}

interface CallItem {
  readonly id: string;
  readonly status: ItemStatus;
  readonly call_id: string;
  readonly name: string;
  readonly namespace?: string;
  /** Data that a vendor requires back with this call, for example a thought signature. */
  readonly extra_content?: unknown;
}

export interface FunctionCallItem extends CallItem {
  readonly type: 'function_call';
  /** JSON text, as the model wrote it. */
  readonly arguments: string;
}

export interface CustomToolCallItem extends CallItem {
  readonly type: 'custom_tool_call';
  readonly input: string;
}

export type OutputItem = MessageItem | ReasoningItem | FunctionCallItem | CustomToolCallItem;

export interface ResponseUsage {
  readonly input_tokens: number;
  readonly input_tokens_details: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly output_tokens: number;
  readonly output_tokens_details: { readonly reasoning_tokens: number };
  readonly total_tokens: number;
  readonly prompt_tokens_details: JsonObject;
  readonly completion_tokens_details: JsonObject;
  /** The usage object as the provider reported it. */
  readonly raw_usage: JsonObject;
}

export interface ResponseError {
  readonly type: string;
  readonly code: string;
  readonly message: string;
}

/** Echoes of the request are `unknown` or objects: the client's values, with defaults filled in. */
export interface ResponseObject {
  readonly id: string;
  readonly object: 'response';
  /** Unix seconds. */
  readonly created_at: number;
  readonly status: ResponseStatus;
  /** Unix seconds; only set on a completed response. */
  readonly completed_at: number | null;
  readonly background: boolean;
  readonly error: ResponseError | null;
  readonly frequency_penalty: number;
  /** The client's `include`; absent when it sent none. */
  readonly include?: readonly string[];
  readonly incomplete_details: { readonly reason: string } | null;
  readonly instructions: unknown;
  readonly max_output_tokens: number | null;
  readonly max_tool_calls: number | null;
  readonly model: string;
  readonly provider: string;
  readonly output: readonly OutputItem[];
  readonly parallel_tool_calls: boolean;
  readonly presence_penalty: number;
  readonly previous_response_id: string | null;
  readonly prompt_cache_key: string | null;
  readonly prompt_cache_options?: unknown;
  readonly prompt_cache_retention: string | null;
  readonly reasoning: JsonObject;
  readonly safety_identifier: string | null;
  readonly service_tier: string;
  readonly store: boolean;
  readonly temperature: number;
  readonly text: JsonObject;
  readonly tool_choice: unknown;
  readonly tools: readonly JsonObject[];
  readonly top_logprobs: number;
  readonly top_p: number;
  readonly truncation: string;
  readonly usage: ResponseUsage | null;
  readonly user: string | null;
  readonly metadata: JsonObject;
  readonly conversation?: unknown;
  readonly prompt?: unknown;
}

/**
 * A response without output: the object in `response.created`. Translators fill in the provider's output. Every id of
 * the finished response is derived from this `id`, and the names of tools from `tools`, so the same shell and the same
 * answer always give the same bytes.
 */
export type ResponseShell = ResponseObject;
