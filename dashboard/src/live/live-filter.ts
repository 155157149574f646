/** The filter of a live stream: evaluated by the gateway; for entries of the audit log in the same way here. */
import type { RequestPreview } from './live-event.ts';

export interface LiveFilter {
  /** Default `all`. */
  readonly show?: ShownEvents | undefined;
  /** A user path, with all paths below it. */
  readonly userPath?: string | undefined;
  /** Prefix of the request path. */
  readonly path?: string | undefined;
  /** A request, by its id or the id of its exchange. */
  readonly requestId?: string | undefined;
  readonly keyId?: string | undefined;
}

export type ShownEvents = 'all' | 'ended' | 'failed';

const typesOf: Readonly<Record<ShownEvents, string | undefined>> = {
  all: undefined,
  ended: 'audit.completed,audit.failed,usage',
  failed: 'audit.failed,usage',
};

/** The parameters of `GET /admin/live/logs`; also the identity of a stream. */
export function liveQuery(filter: LiveFilter): Readonly<Record<string, string>> {
  return given({
    view: 'rows',
    types: typesOf[filter.show ?? 'all'],
    user_path: filter.userPath,
    path: filter.path,
    request_id: filter.requestId,
    auth_key_id: filter.keyId,
  });
}

/** The parameters of `GET /admin/audit/log` that include every request of the filter. */
export function auditQuery(filter: LiveFilter): Readonly<Record<string, string>> {
  return given({
    user_path: filter.userPath,
    path: filter.path,
    id: filter.requestId,
    auth_key_id: filter.keyId,
  });
}

/** Whether an ended request belongs to the filter. The audit log also finds parts of paths. */
export function isInFilter(filter: LiveFilter, request: RequestPreview): boolean {
  const { path, requestId, keyId, show } = filter;
  if (path !== undefined && request.path?.startsWith(path) !== true) return false;
  if (requestId !== undefined && request.requestId !== requestId && request.id !== requestId) return false;
  if (keyId !== undefined && request.keyId !== keyId) return false;
  return show !== 'failed' || (request.outcome !== undefined && request.outcome !== 'completed');
}

function given(query: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  const members = Object.entries(query).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, value] as const],
  );
  return Object.fromEntries(members);
}
