/** Output items while they are being said. Each tells its own events, and can be read as an item at any time. */
import type { JsonObject } from '../json.ts';
import type { ResponseEvent } from './response-events.ts';
import type {
  CustomToolCallItem,
  FunctionCallItem,
  ItemStatus,
  Logprob,
  MessageItem,
  MessagePart,
  OutputItem,
  ReasoningItem,
} from './response-object.ts';
import type { ToolIdentity } from './tool-names.ts';

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

function tellAdded(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.added', sequence_number: queue.next(), output_index: index, item });
}

function tellDone(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.done', sequence_number: queue.next(), output_index: index, item });
}

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

  constructor(queue: EventQueue, id: string, index: number) {
    this.#id = id;
    this.index = index;
    tellAdded(queue, index, this.read('in_progress'));
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

  /** @returns false when no text is open that it could belong to */
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

  close(queue: EventQueue, status: ItemStatus): void {
    this.#closePart(queue);
    tellDone(queue, this.index, this.read(status));
  }

  read(status: ItemStatus): MessageItem {
    return { id: this.#id, type: 'message', status, role: 'assistant', content: this.#parts.map(readPart) };
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

/** Told as a summary: the only form of reasoning in clear text that all clients and validators agree on. */
export class OpenReasoning implements OpenItem {
  readonly index: number;
  readonly #id: string;
  #text = '';

  constructor(queue: EventQueue, id: string, index: number) {
    this.#id = id;
    this.index = index;
    tellAdded(queue, index, { id, type: 'reasoning', status: 'in_progress', summary: [] });
    queue.add({
      type: 'response.reasoning_summary_part.added',
      sequence_number: queue.next(),
      item_id: id,
      output_index: index,
      summary_index: 0,
      part: { type: 'summary_text', text: '' },
    });
  }

  addText(queue: EventQueue, delta: string): void {
    this.#text += delta;
    queue.add({
      type: 'response.reasoning_summary_text.delta',
      sequence_number: queue.next(),
      item_id: this.#id,
      output_index: this.index,
      summary_index: 0,
      delta,
    });
  }

  close(queue: EventQueue, status: ItemStatus): void {
    const place = { item_id: this.#id, output_index: this.index, summary_index: 0 };
    const text = this.#text;
    queue.add({ type: 'response.reasoning_summary_text.done', sequence_number: queue.next(), ...place, text });
    const part = { type: 'summary_text', text } as const;
    queue.add({ type: 'response.reasoning_summary_part.done', sequence_number: queue.next(), ...place, part });
    tellDone(queue, this.index, this.read(status));
  }

  read(status: ItemStatus): ReasoningItem {
    return { id: this.#id, type: 'reasoning', status, summary: [{ type: 'summary_text', text: this.#text }] };
  }
}

export class OpenCall implements OpenItem {
  readonly index: number;
  readonly #id: string;
  readonly #callId: string;
  readonly #tool: ToolIdentity;
  #arguments = '';
  #extra: unknown;

  constructor(queue: EventQueue, callId: string, index: number, tool: ToolIdentity, extra: unknown) {
    this.#id = `${tool.kind === 'custom' ? 'ctc' : 'fc'}_${callId}`;
    this.#callId = callId;
    this.index = index;
    this.#tool = tool;
    this.#extra = extra;
    tellAdded(queue, index, this.read('in_progress'));
  }

  addArguments(queue: EventQueue, delta: string): void {
    this.#arguments += delta;
    // The input of a custom tool is wrapped in JSON by the model: it can be told once the JSON is whole.
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

  close(queue: EventQueue, status: ItemStatus): void {
    const place = { item_id: this.#id, output_index: this.index };
    if (this.#tool.kind === 'custom') {
      const input = customInput(this.#arguments);
      const delta = input;
      queue.add({ type: 'response.custom_tool_call_input.delta', sequence_number: queue.next(), ...place, delta });
      queue.add({ type: 'response.custom_tool_call_input.done', sequence_number: queue.next(), ...place, input });
    } else {
      // A model that calls without arguments may say nothing at all, and clients parse what they get as JSON.
      if (this.#arguments === '' && status === 'completed') this.addArguments(queue, '{}');
      queue.add({
        type: 'response.function_call_arguments.done',
        sequence_number: queue.next(),
        ...place,
        name: this.#tool.name,
        arguments: this.#arguments,
      });
    }
    tellDone(queue, this.index, this.read(status));
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

/** What the model put into `{"input": …}`; its bare words when it did not keep to that form. */
function customInput(text: string): string {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === 'object' && parsed !== null && 'input' in parsed && typeof parsed.input === 'string') {
      return parsed.input;
    }
  } catch {
    // cut off, or not JSON
  }
  return text;
}
