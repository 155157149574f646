/** The administrators' rules by which request headers become labels. */
import { z } from 'zod';
import { taggingChanged } from '../events/catalogue/access.ts';
import { isA } from './known-event.ts';
import type { Projection } from './projection.ts';

const taggingState = z.object({
  headers: taggingChanged.data.shape.headers,
  /** Of the newest event; undefined while nothing was set. */
  revision: z.string().optional(),
});

export type TaggingState = z.infer<typeof taggingState>;

/** Each state is a new object: callers detect changes by comparing references. */
export const taggingView: Projection<TaggingState> = {
  name: 'tagging',
  version: 1,
  filter: { types: ['tagging.'] },
  initial: () => ({ headers: [] }),
  apply: (state, event) =>
    isA(event, taggingChanged) ? { headers: event.data.headers, revision: String(event.revision) } : state,
  save: (state) => state,
  load: (saved) => taggingState.parse(saved),
};
