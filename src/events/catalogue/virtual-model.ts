/**
 * The virtual-model family: a name that leads to other models, or a policy that says who may use some, on streams
 * `virtual-model-<source>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const strategies = ['round_robin', 'cost', 'failover', 'adaptive'] as const;

export const virtualModelSaved = defineEvent({
  type: 'virtual_model.saved',
  when: 'An administrator made a virtual model, or changed it: this is all of it.',
  data: z.object({
    source: z.string().describe('the name that clients use; of a policy, a canonical selector'),
    targets: z
      .array(
        z.object({
          provider: z.string().optional().describe('absent: another virtual model of that name, or whoever serves it'),
          model: z.string(),
          weight: z.number().optional().describe('1 when absent'),
        }),
      )
      .readonly()
      .describe('empty: it is a policy'),
    strategy: z.enum(strategies),
    sessionAffinity: z.boolean(),
    failover: z
      .object({
        enabled: z.boolean(),
        statuses: z.array(z.number().int()).readonly().optional(),
        phrases: z.array(z.string()).readonly().optional(),
      })
      .describe('statuses and phrases: in place of those set for all'),
    userPaths: z.array(z.string()).readonly().describe('who may use it, each with all below; empty: everybody'),
    enabled: z.boolean(),
    description: z.string().optional(),
    renamedFrom: z.string().optional().describe('the name it had, when that is what changed'),
  }),
});

export const virtualModelRemoved = defineEvent({
  type: 'virtual_model.removed',
  when: 'An administrator removed a virtual model, or gave it another name.',
  data: z.object({ source: z.string(), renamedTo: z.string().optional() }),
});
