/** `/admin/log`: the state of the event log, and single streams of it without their content. */
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import { formatPosition, positionBefore, type RecordedEvent, type StreamName } from '../../events/event.ts';
import { type EventLog, type LogCapabilities, newestEvent } from '../../events/log.ts';
import { numberParameter, parameterWithDefault, queryOfParameters, textParameter } from '../api/parameters.ts';
import { globalAdmin, jsonAnswer, type Routes } from '../api/route-schema.ts';
import { timeText } from '../dates.ts';

export interface LogFacts {
  readonly log: EventLog;
  readonly engine: 'files' | 'memory' | 'kafka' | 'eventstore';
  /** `LOG_DURABILITY`, of a log in files. */
  readonly durability: 'standard' | 'strict' | 'relaxed' | undefined;
  /** Its segments, or those of its replica, in the order of positions; undefined for a log in memory. */
  readonly segments:
    | (() => Promise<readonly { readonly first: number; readonly sealed: boolean; readonly bytes: number }[]>)
    | undefined;
}

/** Newest segments in the answer. */
const SEGMENTS = 20;
const PAGE = { usual: 50, most: 200 };

const meanings: Readonly<Record<NonNullable<LogFacts['durability']> | LogCapabilities['durability'], string>> = {
  standard: 'Events are with the operating system before the provider is called, and on disk before the answer ends.',
  strict: 'Events are on disk before the provider is called, and before the answer ends.',
  relaxed: 'Events are with the operating system; the disk has them within 100 ms. A power cut can lose that time.',
  disk: 'Events are on disk before the answer ends.',
  os: 'Events are with the operating system.',
  replicated: 'Every replica that the engine requires has the events before the answer ends.',
  memory: 'Events are in memory only. They are lost when the process ends.',
};

const position = z.string();
const segment = z.object({
  first: position.describe('Position of its first event'),
  last: position.nullable().describe('Null: it is being written'),
  sealed: z.boolean().describe('Whether it is compressed'),
  bytes: z.int().describe('On disk'),
});

const logAnswer = z.object({
  engine: z.enum(['files', 'memory', 'kafka', 'eventstore']),
  state: z.enum(['ok', 'unavailable']),
  reason: z.string().nullable().describe('Why it cannot be written'),
  degraded: z.string().nullable().describe('A problem while it can be written'),
  head: position.describe('Of the last event'),
  durable_head: position.describe('Of the last event that is as durable as the engine makes it'),
  last_event_at: z.iso.datetime().nullable(),
  durability: z.object({
    level: z.enum(['standard', 'strict', 'relaxed']).nullable().describe('`LOG_DURABILITY`; null on an engine'),
    meaning: z.string(),
  }),
  unsynced_bytes: z.int(),
  queued_bytes: z.int(),
  max_event_bytes: z.int(),
  stream_index: z.enum(['ok', 'rebuilding']),
  replica: z
    .object({
      connected: z.boolean(),
      unread_appends: z.int().describe('Appends that the engine has acknowledged and this gateway has not read'),
      last_read_at: z.iso.datetime().nullable(),
    })
    .nullable()
    .describe('The copy in files of a log on an engine'),
  segments: z
    .object({
      count: z.int(),
      sealed: z.int(),
      bytes: z.int(),
      oldest: segment.nullable(),
      newest: z.array(segment).describe(`The newest ${SEGMENTS}, the newest first`),
    })
    .nullable()
    .describe('Null for a log in memory'),
});

const getLog = globalAdmin('getLog', 'Get the state of the event log', {
  response: { 200: jsonAnswer('The state', logAnswer) },
});

const listedEvent = z.object({
  revision: z.string(),
  position,
  id: z.string(),
  type: z.string(),
  at: z.iso.datetime(),
  actor: z.string(),
});

const getStream = globalAdmin('getLogStream', 'Get one stream of the log, without the content of its events', {
  description: 'Newest first. `before` of the next page is the revision of the last event of a page.',
  querystring: queryOfParameters({
    name: textParameter('Name of the stream, such as `key-…` or `exchange-…`'),
    before: numberParameter({ least: 0, most: Number.MAX_SAFE_INTEGER }, 'Only events before this revision'),
    limit: parameterWithDefault(numberParameter({ least: 1, most: PAGE.most }, 'Events of the page'), PAGE.usual),
  }),
  response: {
    200: jsonAnswer(
      'The stream',
      z.object({
        name: z.string(),
        revision: z.string().describe('Of its last event'),
        first: listedEvent,
        last: listedEvent,
        events: z.array(listedEvent),
        has_more: z.boolean(),
      }),
    ),
  },
  errors: [404],
});

export function registerLog(admin: Routes, facts: LogFacts): void {
  const { log } = facts;
  admin.get('/log', getLog, () => logState(facts));

  admin.get('/log/stream', getStream, async (request) => {
    const { name, before, limit } = request.query;
    if (name === undefined) throw refusals.missingParameter('name');
    const stream = name as StreamName;
    const last = await newestEvent(stream, log);
    if (last === undefined) throw refusals.notFound('stream', name.slice(0, 128), 'stream_not_found');
    const first = await firstEvent(stream, log);
    const from = before === undefined ? last.revision : BigInt(before) - 1n;
    const events: RecordedEvent[] = [];
    if (from >= 0n) {
      const options = { direction: 'backwards', fromRevision: from, maxCount: limit } as const;
      for await (const event of log.readStream(stream, options)) events.push(event);
    }
    return {
      name,
      revision: String(last.revision),
      first: listed(first ?? last),
      last: listed(last),
      events: events.map(listed),
      has_more: (events.at(-1)?.revision ?? 0n) > 0n,
    };
  });
}

async function logState({ log, engine, durability, segments }: LogFacts): Promise<z.infer<typeof logAnswer>> {
  const status = log.status();
  const newest = await lastEvent(log);
  const { engine: replica } = status;
  return {
    engine,
    state: status.state,
    reason: status.reason ?? null,
    degraded: status.degraded ?? null,
    head: status.head,
    durable_head: status.durableHead,
    last_event_at: newest === undefined ? null : timeText(newest.at),
    durability: { level: durability ?? null, meaning: meanings[durability ?? log.capabilities.durability] },
    unsynced_bytes: status.unsyncedBytes,
    queued_bytes: status.queuedBytes,
    max_event_bytes: log.capabilities.maxEventBytes,
    stream_index: status.unindexedSegments > 0 ? 'rebuilding' : 'ok',
    replica: replica
      ? {
          connected: replica.connected,
          unread_appends: replica.unreadAppends,
          last_read_at: replica.lastReadAt === undefined ? null : timeText(replica.lastReadAt),
        }
      : null,
    segments: segments === undefined ? null : segmentsAnswer(await segments()),
  };
}

function segmentsAnswer(list: Awaited<ReturnType<NonNullable<LogFacts['segments']>>>) {
  const rows = list.map(({ first, sealed, bytes }, place) => {
    const next = list[place + 1]?.first;
    return { first: formatPosition(first), last: next === undefined ? null : formatPosition(next - 1), sealed, bytes };
  });
  return {
    count: rows.length,
    sealed: rows.filter(({ sealed }) => sealed).length,
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
    oldest: rows[0] ?? null,
    newest: rows.slice(-SEGMENTS).reverse(),
  };
}

async function lastEvent(log: EventLog): Promise<RecordedEvent | undefined> {
  const head = await log.head();
  for await (const event of log.readAll({ after: positionBefore(head), maxCount: 1 })) return event;
  return undefined;
}

async function firstEvent(stream: StreamName, log: EventLog): Promise<RecordedEvent | undefined> {
  for await (const event of log.readStream(stream, { maxCount: 1 })) return event;
  return undefined;
}

const listed = ({ revision, position, id, type, at, context }: RecordedEvent) => ({
  revision: String(revision),
  position,
  id,
  type,
  at: timeText(at),
  actor: context.actor,
});
