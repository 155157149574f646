/** Common parts of output items that are not complete yet: each adds its own events, and can be read at any time. */
import type { ResponseEvent } from './response-events.ts';
import type { ItemStatus, OutputItem } from './response-object.ts';

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

export function pushItemAdded(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.added', sequence_number: queue.next(), output_index: index, item });
}

export function pushItemDone(queue: EventQueue, index: number, item: OutputItem): void {
  queue.add({ type: 'response.output_item.done', sequence_number: queue.next(), output_index: index, item });
}
