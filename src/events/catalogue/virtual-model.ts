/**
 * The virtual-model family: a name that stands for other models, or a policy that limits the use of models to user
 * paths, on streams `virtual-model-<source>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

export const strategies = ['round_robin', 'cost', 'failover', 'adaptive', 'plugin'] as const;

export const virtualModelSaved = defineEvent({
  type: 'virtual_model.saved',
  when: 'An administrator created or changed a virtual model. The event contains its complete definition.',
  data: z.object({
    source: z.string().describe('the name that clients use; of a policy, a canonical selector'),
    targets: z
      .array(
        z.object({
          provider: z
            .string()
            .optional()
            .describe('absent: another virtual model of that name, or any provider of the model'),
          model: z.string(),
          weight: z.number().optional().describe('1 when absent'),
        }),
      )
      .readonly()
      .describe('empty for an access policy'),
    strategy: z.enum(strategies),
    plugin: z
      .object({ name: z.string(), config: z.record(z.string(), z.unknown()).readonly() })
      .optional()
      .describe('the route strategy and its settings, when strategy is plugin'),
    sessionAffinity: z.boolean(),
    failover: z
      .object({
        enabled: z.boolean(),
        statuses: z.array(z.number().int()).readonly().optional(),
        phrases: z.array(z.string()).readonly().optional(),
      })
      .describe('statuses and phrases replace the global ones'),
    userPaths: z.array(z.string()).readonly().describe('user paths that may use it, each with all below; empty: all'),
    enabled: z.boolean(),
    description: z.string().optional(),
    renamedFrom: z.string().optional().describe('the previous name, when the name changed'),
  }),
});

export const virtualModelRemoved = defineEvent({
  type: 'virtual_model.removed',
  when: 'An administrator removed or renamed a virtual model.',
  data: z.object({ source: z.string(), renamedTo: z.string().optional() }),
});
