/** What the analytics process tells the gateway that started it, over their channel, each second. */
import { z } from 'zod';

export const analyticsReport = z.object({
  type: z.literal('analytics'),
  state: z.enum(['starting', 'catching-up', 'live', 'waiting', 'stopped']),
  /** Everything up to here can be asked for. */
  position: z.number(),
  lagEvents: z.number(),
  lagMs: z.number(),
  error: z.string().optional(),
  /** Where its ClickHouse answers; absent until it does. */
  url: z.string().optional(),
});

export type AnalyticsReport = z.infer<typeof analyticsReport>;

/** The process ends with this when to start it again cannot help: it has said why. */
export const OFF_FOR_GOOD = 78;
