/** The user family: policies of user paths, on streams `user-<path>`. */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const userPolicySet = defineEvent({
  type: 'user.policy_set',
  when: 'An administrator set which models the user path, and all below it, may use.',
  data: z.object({
    userPath: z.string(),
    allowedModels: z.array(z.string()).describe('canonical selectors; empty: this policy allows every model'),
    description: z.string().optional(),
  }),
});

export const userPolicyRemoved = defineEvent({
  type: 'user.policy_removed',
  when: 'An administrator removed the policy of the user path.',
  data: z.object({ userPath: z.string() }),
});
