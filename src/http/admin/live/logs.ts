/**
 * `GET /admin/live/logs`: the log as server-sent events, from any position in it, followed by new events.
 *
 * `id:` is the position. A client that reconnects with it, in `Last-Event-ID` or as `cursor`, gets the missed events:
 * previews up to the replay limit; beyond it, `reset`, and the client reloads its lists over REST. The raw view is the
 * log itself and has no limit. Without a cursor a client gets the requests in flight and then new events. An
 * administrator of a subtree gets the exchanges of that subtree.
 */
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ReadAudit } from '../../../commands/audit/audit-reads.ts';
import type { Caller } from '../../../commands/model-request/model-request.ts';
import { Refusal, refusals } from '../../../commands/refusal.ts';
import { type Position, streamName, type UserPath } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { InFlight } from '../../../projections/in-flight.ts';
import {
  controlBytes,
  type FrameForm,
  type LiveFilter,
  matchesFilter,
  snapshotBytes,
} from '../../../projections/live-frame.ts';
import { eventView, LiveTail } from '../../../projections/live-tail.ts';
import { previewView, snapshotFrames } from '../../../projections/preview-view.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import {
  booleanParameter,
  parameterWithDefault,
  type QueryParameter,
  queryOfParameters,
  textParameter,
} from '../../api/parameters.ts';
import { mediaAnswer, type Routes, scopedAdmin } from '../../api/route-schema.ts';
import { Places } from '../../bodies.ts';
import type { ArrivedRequest } from '../../client-address.ts';
import { logPosition } from '../../paging.ts';
import { single, userPathFilter } from '../../request-head.ts';
import { callerOf, eventContextOf } from '../../server.ts';
import { pathInScope, scopeOf } from '../admin-scope.ts';
import { LiveClient } from './client.ts';

export interface LiveLogsOptions {
  readonly log: EventLog;
  /** Records every connection before anything is sent on it: the events contain prompts and answers. */
  readonly audit: ReadAudit;
  readonly inFlight: Pick<RunningProjection<InFlight>, 'state' | 'position' | 'whenProcessed'>;
  readonly enabled: boolean;
  /** Whether an accepted caller is still accepted: a connection can outlast a key. */
  isStillAdministrator(caller: Caller, request: ArrivedRequest): boolean;
  /** Previews that are replayed to a reconnecting client. Default 1000. */
  readonly replayLimit?: number;
  /** Default 15. */
  readonly heartbeatSeconds?: number;
  /** Default 1000. */
  readonly maxClients?: number;
  /** Unsent bytes held for one client before it is fed from the log. Default 1 MiB. */
  readonly clientByteCap?: number;
  /** A client that reads nothing for this long is closed. Default 30. */
  readonly stallSeconds?: number;
}

export interface LiveLogs {
  /** Adds the route; all mounts share the same clients. */
  register(admin: Routes): void;
  /** Number of connected clients. */
  clients(): number;
  /** Bytes held for all clients: written, and not yet accepted by the operating system. */
  unsentBytes(): number;
}

const view: QueryParameter<'previews' | 'rows' | 'events'> = {
  description:
    'Previews of requests; `rows`: previews without headers and bodies, with the last 4096 characters of a streamed ' +
    'answer; or the recorded events',
  schema: { type: 'string', enum: ['previews', 'rows', 'events'], default: 'previews' },
  read: (query) => {
    const given = single(query['view']) ?? 'previews';
    if (given === 'previews' || given === 'rows' || given === 'events') return given;
    throw refusals.invalidRequest(`'view' must be previews, rows or events.`, 'view');
  },
};

const types: QueryParameter<readonly string[] | undefined> = {
  description:
    'Comma-separated: `audit`, `usage`, any preview type, any event type, or a prefix of one such as `request.`',
  schema: { type: 'string' },
  read: ({ types }) =>
    types === undefined
      ? undefined
      : [types]
          .flat()
          .flatMap((list) => list.split(','))
          .map((word) => word.trim())
          .filter((word) => word !== ''),
};

const liveQuery = queryOfParameters({
  cursor: textParameter(
    'Id of the last received event; `0` is the beginning. Default: new events, after the requests in flight',
  ),
  types,
  request_id: textParameter('One request, by its id or the id of its exchange'),
  request: textParameter('Other name of `request_id`'),
  path: textParameter('Prefix of the request path'),
  stream: textParameter('Prefix of the stream name'),
  auth_key_id: textParameter('Id of the managed key that sent the request'),
  user_path: {
    description: 'A user path, with all paths below it',
    schema: { type: 'string', maxLength: 512 },
    read: userPathFilter,
  } satisfies QueryParameter<UserPath | undefined>,
  view,
  raw: parameterWithDefault(booleanParameter('`true` is `view=events`'), false),
});

const followLiveLogs = scopedAdmin('followLiveLogs', 'Follow the log as a stream of events', {
  exposeHeadRoute: false,
  description:
    'Server-sent events: `audit.started`, `audit.updated`, `audit.stream`, then `audit.completed` or `audit.failed`; ' +
    '`usage.completed`; `heartbeat`; `reset`. The id of an event is a position in the log: a client that resumes from ' +
    'it gets the missed events, or `reset` when more previews follow than are replayed. An administrator of a subtree ' +
    'gets its exchanges.',
  querystring: liveQuery,
  requestHeaders: { 'Last-Event-ID': z.string().describe('As `cursor`, which it replaces') },
  response: { 200: mediaAnswer('An endless stream', 'text/event-stream', { type: 'string' }) },
  errors: [429],
});

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
};

export function createLiveLogs(options: LiveLogsOptions): LiveLogs {
  const { log, audit, inFlight, enabled, heartbeatSeconds = 15, maxClients = 1000 } = options;
  const { clientByteCap = 1024 * 1024, stallSeconds = 30, replayLimit = 1000 } = options;
  const previews = new LiveTail(log, previewView(log));
  const events = new LiveTail(log, eventView(log));
  const clients = new Set<LiveClient>();
  const large = { held: new Places(2), reads: new Places(4) };

  const handle = async (requested: LiveLogQuery, request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    if (!enabled) {
      throw refusals.featureUnavailable(
        'Live logs are switched off. DASHBOARD_LIVE_LOGS_ENABLED=true switches them on.',
      );
    }
    const query = scopedTo(scopeOf(request), requested);
    const caller = callerOf(request);
    const reached = await log.head();
    const cursor = query.cursor === undefined ? undefined : toPosition(query.cursor);
    if (clients.size >= maxClients) throw tooManyListeners(maxClients);
    await audit.liveTail(
      query.raw ? 'live_events' : 'live_previews',
      filterInAudit(query.filter),
      eventContextOf(request),
    );
    const head = await log.head();

    reply.hijack();
    const out = reply.raw;
    out.writeHead(200, { ...reply.getHeaders(), ...HEADERS } as Record<string, string>);
    out.flushHeaders();
    if (cursor !== undefined && cursor <= reached && (query.raw || (await isReplayed(cursor, out)))) {
      listen(cursor, []);
      return;
    }
    const beginning = await fresh(head, query.raw);
    // A cursor that the log has not reached belongs to another log; one that is too far behind is not replayed. In both
    // cases the client must discard its state.
    const reset = cursor === undefined ? [] : [controlBytes('reset', beginning.position, Date.now())];
    const isWanted = matchesFilter(query.filter);
    const snapshots = beginning.frames.filter(isWanted).map((frame) => snapshotBytes(frame, query.form));
    listen(beginning.position, [...reset, ...snapshots]);

    function listen(from: Position, first: Buffer[]): void {
      if (out.destroyed) return;
      const client: LiveClient = new LiveClient(out, from, {
        tail: query.raw ? events : previews,
        filter: query.filter,
        form: query.form,
        byteCap: clientByteCap,
        // Previews and rows are short.
        large: query.raw ? large : undefined,
        stallMs: stallSeconds * 1000,
        heartbeatMs: heartbeatSeconds * 1000,
        isAllowed: () => options.isStillAdministrator(caller, request),
        onGone: () => clients.delete(client),
      });
      clients.add(client);
      for (const bytes of first) client.write(bytes);
      client.run();
    }
  };

  /** Whether at most the replay limit of previews follows the cursor. Reads only as many events as it needs. */
  async function isReplayed(cursor: Position, out: ServerResponse): Promise<boolean> {
    const gone = new AbortController();
    out.once('close', () => gone.abort());
    let frames = 0;
    try {
      for await (const { frame } of previews.catchUp(cursor, previews.view.filter, gone.signal)) {
        if (frame !== undefined) frames += 1;
        if (frames > replayLimit) return false;
      }
    } catch {
      // The listener reads the log itself, and closes with a reason when it cannot.
    }
    return true;
  }

  /** The requests in flight, and the log position of that state. */
  async function fresh(head: Position, raw: boolean) {
    try {
      // The snapshot includes every event that was in the log when the client connected.
      await inFlight.whenProcessed(head);
    } catch {
      // The projection has stopped and reports it elsewhere. The tail does not depend on it.
      return { position: head, frames: [] };
    }
    const { state, position } = inFlight;
    return { position, frames: raw ? [] : snapshotFrames(state, position, (id) => streamName('exchange', id)) };
  }

  return {
    register(admin) {
      admin.get('/live/logs', followLiveLogs, (request, reply) =>
        handle(readQuery(request.query, request.headers['last-event-id']), request, reply),
      );
      // An open stream would keep the server from closing.
      admin.addHook('preClose', async () => {
        for (const client of [...clients]) client.close('the gateway is stopping');
      });
    },
    clients: () => clients.size,
    unsentBytes: () => [...clients].reduce((sum, client) => sum + client.unsentBytes, 0),
  };
}

/** @throws Refusal 403 for a user path outside the scope */
function scopedTo(scope: UserPath | undefined, query: LiveLogQuery): LiveLogQuery {
  if (scope === undefined) return query;
  const userPath = pathInScope(scope, query.filter.userPath as UserPath | undefined);
  return { ...query, filter: { ...query.filter, userPath, exchangesOnly: true } };
}

interface LiveLogQuery {
  readonly cursor: string | undefined;
  readonly raw: boolean;
  readonly form: FrameForm;
  readonly filter: LiveFilter;
}

function readQuery(query: z.output<typeof liveQuery>, lastEventId: string | string[] | undefined): LiveLogQuery {
  return {
    // A browser that reconnects repeats its first URL, and sends its position in the header.
    cursor: typeof lastEventId === 'string' && lastEventId !== '' ? lastEventId : query.cursor,
    raw: query.raw || query.view === 'events',
    form: query.view === 'rows' ? 'rows' : 'whole',
    filter: {
      types: query.types,
      request: query.request_id ?? query.request,
      path: query.path,
      stream: query.stream,
      userPath: query.user_path,
      keyId: query.auth_key_id,
    },
  };
}

/** The filter as it is recorded. */
function filterInAudit(filter: LiveFilter): Record<string, string> {
  return Object.fromEntries(
    Object.entries(filter).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]])),
  );
}

/** A position, padded as in the log. @throws Refusal 400 */
function toPosition(cursor: string): Position {
  const position = logPosition(cursor);
  if (position !== undefined) return position;
  throw refusals.invalidRequest(`'${cursor.slice(0, 100)}' is not a cursor: send the id of an event, or 0.`, 'cursor');
}

function tooManyListeners(maxClients: number): Refusal {
  return new Refusal({
    status: 429,
    type: 'rate_limit_error',
    code: 'too_many_live_clients',
    message: `The maximum of ${maxClients} listeners is reached. Try again later.`,
    retryAfterSeconds: 10,
  });
}
