/** What the analytics process and the process that started it send each other, over the channel between them. */
import { z } from 'zod';
import { clickHousePasswords } from './clickhouse-passwords.ts';

/**
 * Sent to the analytics process once, first of all: it reads no configuration, and has no secret in its environment.
 * For the embedded ClickHouse, the socket on which it answers comes with it.
 */
export const analyticsJob = z.object({
  type: z.literal('job'),
  /** As for `openLog`. */
  logUrl: z.string(),
  /** For its lock, and for the data of the embedded ClickHouse. */
  folder: z.string(),
  database: z.string(),
  retention: z.object({ audit: z.number(), usage: z.number() }),
  diagnostics: z.object({ level: z.string(), format: z.enum(['text', 'json']) }),
  clickhouse: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('embedded'), passwords: clickHousePasswords }),
    z.object({ kind: z.literal('server'), url: z.string(), user: z.string(), password: z.string() }),
  ]),
});

export type AnalyticsJob = z.infer<typeof analyticsJob>;

/** Sent by the analytics process each second, from when its ClickHouse answers. */
export const analyticsReport = z.object({
  type: z.literal('analytics'),
  state: z.enum(['starting', 'catching-up', 'live', 'waiting', 'stopped']),
  /** What it takes of a processor that others want too. */
  share: z.enum(['fair', 'low']),
  /** Everything up to here is stored. */
  position: z.number(),
  lagEvents: z.number(),
  lagMs: z.number(),
  error: z.string().optional(),
});

export type AnalyticsReport = z.infer<typeof analyticsReport>;

/** The process ends with this when to start it again cannot help: it has said why. */
export const OFF_FOR_GOOD = 78;
