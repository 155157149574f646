/** The item family: where an item of a response or a conversation is held, on stream `item-<id of the item>`. */
import { z } from 'zod';
import { createdBy } from './creator.ts';
import { defineEvent } from './define.ts';

export const itemStored = defineEvent({
  type: 'item.stored',
  when:
    'An item whose id does not tell its response was stored, in the same append as what holds it. ' +
    'The user path is that of the holder.',
  data: z.object({
    holder: z.enum(['response', 'conversation']),
    holderId: z.string(),
    createdBy: createdBy.describe('the actor who created the holder; absent when it is the actor of this event'),
  }),
});
