/** Messages between the analytics process and the process that started it, over their IPC channel. */
import { z } from 'zod';
import { clickHousePasswords } from './clickhouse-passwords.ts';

/**
 * The first message to the analytics process, sent once: the process reads no configuration, and has no secret in its
 * environment. The socket of the embedded ClickHouse is sent with it.
 */
export const analyticsJob = z.object({
  type: z.literal('job'),
  /** As for `openLog`. */
  logUrl: z.string(),
  /** For its lock, and for the data of the embedded ClickHouse. */
  folder: z.string(),
  database: z.string(),
  retention: z.object({ audit: z.number(), usage: z.number() }),
  /** Of the gateway that has the job of writing, where several share a server. */
  epoch: z.number().optional(),
  diagnostics: z.object({ level: z.string(), format: z.enum(['text', 'json']) }),
  clickhouse: z.discriminatedUnion('kind', [
    z.object({
      kind: z.literal('embedded'),
      /** `administrator` is the user of `POST /admin/sql`, which records its queries itself. */
      passwords: clickHousePasswords.extend({ administrator: z.string().min(1) }),
    }),
    z.object({ kind: z.literal('server'), url: z.string(), user: z.string(), password: z.string() }),
  ]),
});

export type AnalyticsJob = z.infer<typeof analyticsJob>;

/** Sent by the analytics process each second, once its ClickHouse answers. */
export const analyticsReport = z.object({
  type: z.literal('analytics'),
  state: z.enum(['starting', 'catching-up', 'live', 'waiting', 'stopped']),
  /** Its share of a busy processor. */
  share: z.enum(['fair', 'low']),
  /** Every event up to this position is stored. */
  position: z.number(),
  lagEvents: z.number(),
  lagMs: z.number(),
  error: z.string().optional(),
});

export type AnalyticsReport = z.infer<typeof analyticsReport>;

/** Sent by the analytics process before it runs the query of an analyst. Answered by `queryRecorded` with the same id. */
export const queryToRecord = z.object({
  type: z.literal('query'),
  id: z.number(),
  user: z.string(),
  query: z.string(),
  format: z.string().optional(),
  parameters: z.record(z.string(), z.string()),
});

export type QueryToRecord = z.infer<typeof queryToRecord>;

export const queryRecorded = z.object({
  type: z.literal('recorded'),
  id: z.number(),
  /** Why the query is not recorded. Absent: the event is on disk. */
  error: z.string().optional(),
});

export type QueryRecorded = z.infer<typeof queryRecorded>;

/** Exit code of a process that must not be started again. It has printed the reason. */
export const OFF_FOR_GOOD = 78;
