/** A model's reasoning that is not complete yet. */
import type { JsonObject } from '../json.ts';
import { carriedForm } from '../responses-to-chat/carried-reasoning.ts';
import { mergedExtra } from '../responses-to-chat/extra-content.ts';
import { type EventQueue, type OpenItem, pushItemAdded, pushItemDone } from './open-items.ts';
import type { ItemStatus, ReasoningItem } from './response-object.ts';

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
