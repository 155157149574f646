/** The creator of a stored object, in events that another actor may cause: a restart, an administrator's request. */
import { z } from 'zod';

export const createdBy = z
  .enum(['master', 'system'])
  .or(z.templateLiteral(['key:', z.string()]))
  .optional()
  .describe('the actor who created the object; absent when it is the actor of this event');
