/** The events of a Responses stream that a chat model can cause ("OpenAI Responses API: streaming events"). */
import type { JsonObject } from '../json.ts';
import type {
  Logprob,
  MessagePart,
  OutputItem,
  ReasoningText,
  ResponseObject,
  SummaryText,
} from './response-object.ts';

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

/** One whole server-sent event, for a single write to the socket: some clients drop events that are split. */
export function encodeResponseEvent(event: ResponseEvent): Buffer {
  return Buffer.from(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
}

/** The last bytes of every stream. */
export const DONE: Buffer = Buffer.from('data: [DONE]\n\n');
