/** Output items that are not complete yet: each adds its own events, and can be read at any time. */

import { parseExactly } from '../../../json/exact-json.ts';
import type { JsonObject } from '../json.ts';
import { carriedForm, mergedExtra } from '../responses-to-chat/reasoning.ts';
import type { ToolIdentity } from '../responses-to-chat/tools.ts';
import type {
  CustomToolCallItem,
  FunctionCallItem,
  ItemStatus,
  Logprob,
  MessageItem,
  MessagePart,
  OutputItem,
  ReasoningItem,
  ResponseEvent,
} from './response-object.ts';

/** Numbers the events of one stream and keeps them until they are taken. */
export class EventQueue {
  #number = 0;
  #events: ResponseEvent[] = [];

  next(): number {
    return this.#number++;
  }

  add(event: ResponseEvent): void {
    this.#events.push(event);
  }

  take(): ResponseEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}

export interface OpenItem {
  readonly index: number;
  read(status: ItemStatus): OutputItem;
  close(queue: EventQueue, status: ItemStatus): void;
}

function pushItemAdded(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.added', sequence_number: queue.next(), output_index: index, item });
}

function pushItemDone(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.done', sequence_number: queue.next(), output_index: index, item });
}

// A message that is not complete yet: parts of text and refusals, one after the other.

interface OpenText {
  readonly type: 'output_text';
  text: string;
  readonly annotations: JsonObject[];
  readonly logprobs: Logprob[];
}

interface OpenRefusal {
  readonly type: 'refusal';
  refusal: string;
}

const noLogprobs: readonly Logprob[] = [];

export class OpenMessage implements OpenItem {
  readonly index: number;
  readonly #id: string;
  readonly #parts: (OpenText | OpenRefusal)[] = [];
  #extra: JsonObject | undefined;

  constructor(queue: EventQueue, id: string, index: number) {
    this.#id = id;
    this.index = index;
    pushItemAdded(queue, index, this.read('in_progress'));
  }

  /** An empty delta only opens the text. */
  addText(queue: EventQueue, delta: string, logprobs: readonly Logprob[] = noLogprobs): void {
    let part = this.#parts.at(-1);
    if (part?.type !== 'output_text') {
      part = { type: 'output_text', text: '', annotations: [], logprobs: [] };
      this.#open(queue, part);
    }
    if (delta === '' && logprobs.length === 0) return;
    part.text += delta;
    if (logprobs.length > 0) part.logprobs.push(...logprobs);
    queue.add({
      type: 'response.output_text.delta',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      content_index: this.#parts.length - 1,
      delta,
      logprobs,
    });
  }

  addRefusal(queue: EventQueue, delta: string): void {
    let part = this.#parts.at(-1);
    if (part?.type !== 'refusal') {
      part = { type: 'refusal', refusal: '' };
      this.#open(queue, part);
    }
    part.refusal += delta;
    queue.add({
      type: 'response.refusal.delta',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      content_index: this.#parts.length - 1,
      delta,
    });
  }

  /** @returns false when no open text exists for it */
  addAnnotation(queue: EventQueue, annotation: JsonObject): boolean {
    const part = this.#parts.at(-1);
    if (part?.type !== 'output_text') return false;
    part.annotations.push(annotation);
    queue.add({
      type: 'response.output_text.annotation.added',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      content_index: this.#parts.length - 1,
      annotation_index: part.annotations.length - 1,
      annotation,
    });
    return true;
  }

  addExtra(extra: JsonObject): void {
    this.#extra = mergedExtra(this.#extra, extra);
  }

  close(queue: EventQueue, status: ItemStatus): void {
    this.#closePart(queue);
    pushItemDone(queue, this.index, this.read(status));
  }

  read(status: ItemStatus): MessageItem {
    return {
      id: this.#id,
      type: 'message',
      status,
      role: 'assistant',
      content: this.#parts.map(readPart),
      ...(this.#extra === undefined ? {} : { extra_content: this.#extra }),
    };
  }

  #open(queue: EventQueue, part: OpenText | OpenRefusal): void {
    this.#closePart(queue);
    this.#parts.push(part);
    queue.add({
      type: 'response.content_part.added',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      content_index: this.#parts.length - 1,
      part: readPart(part),
    });
  }

  #closePart(queue: EventQueue): void {
    const open = this.#parts.at(-1);
    if (open === undefined) return;
    const part = readPart(open);
    const place = { item_id: this.#id, output_index: this.index, content_index: this.#parts.length - 1 };
    if (part.type === 'output_text') {
      const { text, logprobs } = part;
      queue.add({ type: 'response.output_text.done', sequence_number: queue.next(), ...place, text, logprobs });
    } else {
      const { refusal } = part;
      queue.add({ type: 'response.refusal.done', sequence_number: queue.next(), ...place, refusal });
    }
    queue.add({ type: 'response.content_part.done', sequence_number: queue.next(), ...place, part });
  }
}

function readPart(part: OpenText | OpenRefusal): MessagePart {
  if (part.type === 'refusal') return { type: 'refusal', refusal: part.refusal };
  return { type: 'output_text', text: part.text, annotations: [...part.annotations], logprobs: [...part.logprobs] };
}

// A model's reasoning that is not complete yet.

export interface ReasoningForm {
  /**
   * `summary`: the only form of reasoning in clear text that all clients and validators support. `content`: as raw
   * reasoning text, whose events have different names in OpenAI's API and in Open Responses.
   */
  readonly form: 'summary' | 'content';
  /** Whether the item also holds `encrypted_content`. */
  readonly carried: boolean;
}

/** The form that a request's `include` selects. */
export function reasoningForm(include: readonly string[] = []): ReasoningForm {
  return {
    form: include.includes('reasoning.content') ? 'content' : 'summary',
    carried: include.includes('reasoning.encrypted_content'),
  };
}

export class OpenReasoning implements OpenItem {
  readonly index: number;
  readonly #id: string;
  readonly #form: ReasoningForm;
  #text = '';
  #extra: JsonObject | undefined;
  readonly #calls = new Map<string, JsonObject>();

  constructor(queue: EventQueue, id: string, index: number, form: ReasoningForm) {
    this.#id = id;
    this.index = index;
    this.#form = form;
    const inContent = form.form === 'content' ? { content: [] } : {};
    pushItemAdded(queue, index, { id, type: 'reasoning', status: 'in_progress', summary: [], ...inContent });
  }

  /** @param delta not empty */
  addText(queue: EventQueue, delta: string): void {
    if (this.#text === '') this.#pushPart(queue, 'added');
    this.#text += delta;
    if (this.#form.form === 'summary') {
      const type = 'response.reasoning_summary_text.delta';
      queue.add({ type, sequence_number: queue.next(), ...this.#inSummary, delta });
    } else {
      const type = 'response.reasoning_text.delta';
      queue.add({ type, sequence_number: queue.next(), ...this.#inContent, delta });
    }
  }

  addExtra(extra: JsonObject): void {
    this.#extra = mergedExtra(this.#extra, extra);
  }

  /** Keeps a vendor's data of a call that this led to, for a client that sends back only the reasoning. */
  carryForCall(callId: string, extra: JsonObject): void {
    this.#calls.set(callId, extra);
  }

  close(queue: EventQueue, status: ItemStatus): void {
    const text = this.#text;
    if (text !== '') {
      if (this.#form.form === 'summary') {
        const type = 'response.reasoning_summary_text.done';
        queue.add({ type, sequence_number: queue.next(), ...this.#inSummary, text });
      } else {
        const type = 'response.reasoning_text.done';
        queue.add({ type, sequence_number: queue.next(), ...this.#inContent, text });
      }
      this.#pushPart(queue, 'done');
    }
    pushItemDone(queue, this.index, this.read(status));
  }

  read(status: ItemStatus): ReasoningItem {
    const text = this.#text;
    const summary = text === '' ? [] : [{ type: 'summary_text' as const, text }];
    const content = text === '' ? [] : [{ type: 'reasoning_text' as const, text }];
    return {
      id: this.#id,
      type: 'reasoning',
      status,
      ...(this.#form.form === 'summary' ? { summary } : { summary: [], content }),
      ...(this.#form.carried ? { encrypted_content: this.#carried() } : {}),
      ...(this.#extra === undefined ? {} : { extra_content: this.#extra }),
    };
  }

  #carried(): string {
    return carriedForm({ text: this.#text, extra: this.#extra, calls: this.#calls });
  }

  #pushPart(queue: EventQueue, what: 'added' | 'done'): void {
    const text = this.#text;
    if (this.#form.form === 'summary') {
      const type = `response.reasoning_summary_part.${what}` as const;
      const part = { type: 'summary_text', text } as const;
      queue.add({ type, sequence_number: queue.next(), ...this.#inSummary, part });
    } else {
      const type = `response.content_part.${what}` as const;
      const part = { type: 'reasoning_text', text } as const;
      queue.add({ type, sequence_number: queue.next(), ...this.#inContent, part });
    }
  }

  get #inSummary() {
    return { item_id: this.#id, output_index: this.index, summary_index: 0 };
  }

  get #inContent() {
    return { item_id: this.#id, output_index: this.index, content_index: 0 };
  }
}

/** A tool call that is not complete yet. */
export class OpenCall implements OpenItem {
  readonly index: number;
  readonly #id: string;
  readonly #callId: string;
  readonly #tool: ToolIdentity;
  #arguments = '';
  #extra: unknown;

  /** @param root of the response's id: items are found by id alone, and a call id may be reused */
  constructor(queue: EventQueue, root: string, callId: string, index: number, tool: ToolIdentity, extra: unknown) {
    this.#id = `${tool.kind === 'custom' ? 'ctc' : 'fc'}_${root}_${index}`;
    this.#callId = callId;
    this.index = index;
    this.#tool = tool;
    this.#extra = extra;
    pushItemAdded(queue, index, this.read('in_progress'));
  }

  addArguments(queue: EventQueue, delta: string): void {
    this.#arguments += delta;
    // The model wraps the input of a custom tool in JSON: it can be sent once the JSON is whole.
    if (this.#tool.kind === 'custom') return;
    queue.add({
      type: 'response.function_call_arguments.delta',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      delta,
    });
  }

  addExtra(extra: unknown): void {
    this.#extra = extra;
  }

  /** Clients execute a call once it is announced as done: one that was cut off is not announced. */
  close(queue: EventQueue, status: ItemStatus): void {
    if (status !== 'completed') return;
    const place = { item_id: this.#id, output_index: this.index };
    if (this.#tool.kind === 'custom') {
      const input = customInput(this.#arguments);
      const delta = input;
      queue.add({ type: 'response.custom_tool_call_input.delta', sequence_number: queue.next(), ...place, delta });
      queue.add({ type: 'response.custom_tool_call_input.done', sequence_number: queue.next(), ...place, input });
    } else {
      // A model that calls without arguments may send none at all, but clients parse the arguments as JSON.
      if (this.#arguments === '') this.addArguments(queue, '{}');
      queue.add({
        type: 'response.function_call_arguments.done',
        sequence_number: queue.next(),
        ...place,
        name: this.#tool.name,
        arguments: this.#arguments,
      });
    }
    pushItemDone(queue, this.index, this.read(status));
  }

  read(status: ItemStatus): FunctionCallItem | CustomToolCallItem {
    const { name, namespace } = this.#tool;
    const common = {
      id: this.#id,
      status,
      call_id: this.#callId,
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(this.#extra === undefined ? {} : { extra_content: this.#extra }),
    };
    if (this.#tool.kind === 'custom') {
      return {
        ...common,
        type: 'custom_tool_call',
        input: status === 'in_progress' ? '' : customInput(this.#arguments),
      };
    }
    return { ...common, type: 'function_call', arguments: this.#arguments };
  }
}

/** The model's value of `{"input": …}`; its raw text when it did not follow that form. */
function customInput(text: string): string {
  try {
    const parsed = parseExactly(text);
    if (typeof parsed === 'object' && parsed !== null && 'input' in parsed && typeof parsed.input === 'string') {
      return parsed.input;
    }
  } catch {
    // cut off, or not JSON
  }
  return text;
}
