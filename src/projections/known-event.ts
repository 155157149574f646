import type { z } from 'zod';
import type { EventDefinition } from '../events/catalogue/define.ts';
import type { RecordedEvent } from '../events/event.ts';
import type { CaughtUp } from '../events/log.ts';

/** Whether the event is of this definition. Its `data` is not parsed again: the log's reader has upcast it. */
export function isA<Type extends string, Schema extends z.ZodObject>(
  event: RecordedEvent,
  definition: EventDefinition<Type, Schema>,
): event is RecordedEvent<Type, z.infer<Schema>> {
  return event.type === definition.type;
}

/** Whether a subscription yielded its caught-up marker, and not an event. */
export function isCaughtUp(item: RecordedEvent | CaughtUp): item is CaughtUp {
  return item.type === '$caughtUp';
}
