import type { z } from 'zod';
import type { EventContext, NewEvent } from '../event.ts';

/** Turns the stored `data` of one schema version into that of the next. */
export type Upcast = (data: unknown) => unknown;

export interface EventDefinition<Type extends string = string, Schema extends z.ZodObject = z.ZodObject> {
  readonly type: Type;
  /** The newest version, the one that is written. */
  readonly version: number;
  /** One sentence for `docs/events.md`: when it happens. */
  readonly when: string;
  /** Content of the raw body; undefined when the event has none. */
  readonly body?: string;
  readonly data: Schema;
  /** `upcasts[0]` turns version 1 into 2, and so on: always `version - 1` of them. */
  readonly upcasts: readonly Upcast[];
  /** The types guarantee the shape, so nothing is validated here: this runs on the request path. */
  create(
    data: z.infer<Schema>,
    context: EventContext,
    body?: Uint8Array,
    bodyEnds?: readonly number[],
  ): NewEvent<Type, z.infer<Schema>>;
}

export function defineEvent<Type extends string, Schema extends z.ZodObject>(definition: {
  type: Type;
  when: string;
  data: Schema;
  body?: string;
  version?: number;
  upcasts?: readonly Upcast[];
}): EventDefinition<Type, Schema> {
  const { type, version = 1, upcasts = [] } = definition;
  if (upcasts.length !== version - 1) {
    throw new Error(`event ${type} is at version ${version} and has ${upcasts.length} upcasts, not ${version - 1}`);
  }
  return {
    type,
    version,
    when: definition.when,
    body: definition.body,
    data: definition.data,
    upcasts,
    create: (data, context, body, bodyEnds) => ({ type, schema: version, data, context, body, bodyEnds }),
  };
}
