/** A tool call that is not complete yet. */
import { parseExactly } from '../../../json/exact-json.ts';
import type { ToolIdentity } from '../responses-to-chat/tool-names.ts';
import { type EventQueue, type OpenItem, pushItemAdded, pushItemDone } from './open-items.ts';
import type { CustomToolCallItem, FunctionCallItem, ItemStatus } from './response-object.ts';

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
