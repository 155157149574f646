/** A message that is not complete yet: parts of text and refusals, one after the other. */
import type { JsonObject } from '../json.ts';
import { mergedExtra } from '../responses-to-chat/extra-content.ts';
import { type EventQueue, type OpenItem, pushItemAdded, pushItemDone } from './open-items.ts';
import type { ItemStatus, Logprob, MessageItem, MessagePart } from './response-object.ts';

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
