/**
 * Guards of rules over several streams: `guard-<rule>`. A change whose validity depends on other streams appends to it at the
 * revision on which it was decided, so only one of two such changes that are made at the same time is accepted.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const guardAdvanced = defineEvent({
  type: 'guard.advanced',
  when: 'A virtual model changed, or a workflow or guardrail: in the same append. Nothing else is in force.',
  data: z.object({}),
});
