/** The item family: the response or conversation that holds an item, on stream `item-<id of the item>`. */
import { z } from 'zod';
import { createdBy } from './creator.ts';
import { defineEvent } from './define.ts';

export const itemStored = defineEvent({
  type: 'item.stored',
  when:
    'An item whose id does not contain the id of its response was stored, in the same append as its holder. ' +
    'The user path is that of the holder.',
  data: z.object({
    holder: z.enum(['response', 'conversation']),
    holderId: z.string(),
    createdBy: createdBy.describe('the actor who created the holder; absent when it is the actor of this event'),
  }),
});
