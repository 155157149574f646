/** The user family: what is set for a user path, on streams `user-<path>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const userPolicySet = defineEvent({
  type: 'user.policy_set',
  when: 'An administrator set which models the user path, and all below it, may use.',
  data: z.object({
    userPath: z.string(),
    allowedModels: z.array(z.string()).describe('canonical selectors; empty: nothing is restricted here'),
    description: z.string().optional(),
  }),
});

export const userPolicyRemoved = defineEvent({
  type: 'user.policy_removed',
  when: 'An administrator removed what was set for the user path.',
  data: z.object({ userPath: z.string() }),
});
