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

interface OutputText {
  readonly type: 'output_text';
  readonly text: string;
  readonly annotations: readonly JsonObject[];
  readonly logprobs: readonly Logprob[];
}

interface RefusalPart {
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

interface SummaryText {
  readonly type: 'summary_text';
  readonly text: string;
}

interface ReasoningText {
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
  /** The same in a form to be sent back unread (see reasoning.ts), for a client that requested it. */
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

interface ResponseError {
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

// The events of a Responses stream that a chat model can cause ("OpenAI Responses API: streaming events").

interface Numbered {
  /** Counts from 0 without gaps. */
  readonly sequence_number: number;
}

interface OfItem extends Numbered {
  readonly item_id: string;
  readonly output_index: number;
}

interface OfPart extends OfItem {
  readonly content_index: number;
}

interface OfSummary extends OfItem {
  readonly summary_index: number;
}

export type TerminalEventType = 'response.completed' | 'response.incomplete' | 'response.failed';

export interface EnvelopeError {
  readonly type: string;
  readonly code: string | null;
  readonly message: string;
  readonly param: string | null;
  readonly provider?: string;
}

export type ResponseEvent =
  | (Numbered & {
      readonly type: 'response.created' | 'response.in_progress' | TerminalEventType;
      readonly response: ResponseObject;
    })
  | (Numbered & {
      readonly type: 'response.output_item.added' | 'response.output_item.done';
      readonly output_index: number;
      readonly item: OutputItem;
    })
  | (OfPart & {
      readonly type: 'response.content_part.added' | 'response.content_part.done';
      readonly part: MessagePart | ReasoningText;
    })
  | (OfPart & {
      readonly type: 'response.output_text.delta';
      readonly delta: string;
      readonly logprobs: readonly Logprob[];
    })
  | (OfPart & {
      readonly type: 'response.output_text.done';
      readonly text: string;
      readonly logprobs: readonly Logprob[];
    })
  | (OfPart & {
      readonly type: 'response.output_text.annotation.added';
      readonly annotation_index: number;
      readonly annotation: JsonObject;
    })
  | (OfPart & { readonly type: 'response.refusal.delta'; readonly delta: string })
  | (OfPart & { readonly type: 'response.refusal.done'; readonly refusal: string })
  | (OfSummary & {
      readonly type: 'response.reasoning_summary_part.added' | 'response.reasoning_summary_part.done';
      readonly part: SummaryText;
    })
  | (OfSummary & { readonly type: 'response.reasoning_summary_text.delta'; readonly delta: string })
  | (OfSummary & { readonly type: 'response.reasoning_summary_text.done'; readonly text: string })
  | (OfPart & { readonly type: 'response.reasoning_text.delta'; readonly delta: string })
  | (OfPart & { readonly type: 'response.reasoning_text.done'; readonly text: string })
  | (OfItem & { readonly type: 'response.function_call_arguments.delta'; readonly delta: string })
  | (OfItem & {
      readonly type: 'response.function_call_arguments.done';
      readonly name: string;
      readonly arguments: string;
    })
  | (OfItem & { readonly type: 'response.custom_tool_call_input.delta'; readonly delta: string })
  | (OfItem & { readonly type: 'response.custom_tool_call_input.done'; readonly input: string })
  /** Flat as in OpenAI's API, and nested as in Open Responses: some clients fail on either one alone. */
  | (Numbered & {
      readonly type: 'error';
      readonly code: string | null;
      readonly message: string;
      readonly param: string | null;
      readonly error: EnvelopeError;
    });

// The error of a failed stream, so that clients know whether and when to retry.

export interface StreamFailure {
  /** One of the error envelope's types. */
  readonly type: string;
  /** Null when there is none: the code for clients is then derived from the type. */
  readonly code: string | null;
  readonly message: string;
  /** Undefined when the gateway itself failed. */
  readonly provider?: string | undefined;
  /** The waiting time before the next attempt, if known. */
  readonly retryAfterSeconds?: number | undefined;
}

/**
 * The code and the sentence that clients evaluate. Codex gives up on `context_length_exceeded` and
 * `insufficient_quota`, retries after any other code, and reads the waiting time from the text "try again in 1.5s" when
 * the code is `rate_limit_exceeded`.
 */
export function failureForClients(failure: StreamFailure): { readonly code: string; readonly message: string } {
  const { type, message, retryAfterSeconds } = failure;
  const limited = type === 'rate_limit_error' && failure.code !== 'insufficient_quota';
  const code = limited ? 'rate_limit_exceeded' : (failure.code ?? type);
  if (!limited || retryAfterSeconds === undefined || /try again in/i.test(message)) return { code, message };
  const seconds = Math.round(retryAfterSeconds * 10) / 10;
  return { code, message: `${message.replace(/[.\s]+$/, '')}. Please try again in ${seconds}s.` };
}

/** The failure of a provider whose stream ends before its answer. */
export function streamCutOff(provider: string): StreamFailure & { readonly code: string } {
  const message = `The provider '${provider}' ended its stream before the answer was complete.`;
  return { type: 'provider_error', code: 'stream_incomplete', message, provider };
}

/** The failure of a provider that ends its answer with the finish reason `error` and no further details. */
export function failedWithoutMessage(provider: string): StreamFailure {
  const message = `The provider '${provider}' ended its answer with an error without details.`;
  return { type: 'provider_error', code: null, message, provider };
}

/** The envelope's type for a code in a provider's stream. */
export function typeOfCode(code: string): string {
  return code === 'rate_limit_exceeded' || code === 'insufficient_quota' ? 'rate_limit_error' : 'provider_error';
}
