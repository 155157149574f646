/** `GET /admin/history`: admin changes with actor, time, and the values before and after. */
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { refusals } from '../../commands/refusal.ts';
import type { UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import type { AdminJournal } from '../../projections/admin-journal.ts';
import { parseSubject, type Subject, subjectKinds, subjectText } from '../../projections/admin-subjects.ts';
import {
  allHistory,
  type HistoryPage,
  type HistoryQuery,
  knownOf,
  subjectHistory,
} from '../../projections/read-history.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import { dayOrTime } from '../dates.ts';
import { entryPositionIn, limitIn } from '../paging.ts';
import { type Query, queryOf, single } from '../query.ts';
import { parseUserPath } from '../user-path.ts';
import { isWithin, pathInScope, scopeOf } from './mount.ts';

export interface HistoryDependencies {
  readonly log: EventLog;
  readonly journal: Pick<RunningProjection<AdminJournal>, 'state' | 'whenProcessed'>;
}

const PAGE = { usual: 50, most: 200 };

export function registerHistory(admin: FastifyInstance, { log, journal }: HistoryDependencies): void {
  admin.get('/history', { config: { access: 'scoped-admin' } }, async (request) => {
    const query = queryOf(request);
    const page = readPage(query);
    const subject = subjectIn(query);
    if (subject === undefined) {
      // Subjects of the whole gateway are visible only to administrators of all of it.
      if (scopeOf(request) !== undefined) throw refusals.adminScopeDenied();
      await journal.whenProcessed(await log.head());
      return answer(await allHistory(log, journal.state, page), page);
    }
    await checkScope(request, subject, log);
    const found = await subjectHistory(log, subject, page);
    if (found === undefined) throw noHistory(subject);
    return answer(found, page);
  });
}

function answer({ changes, hasMore }: HistoryPage, { limit }: HistoryQuery): object {
  return { entries: changes, limit, has_more: hasMore };
}

/**
 * Restricts an administrator of a subtree to keys and paths within it.
 * @throws Refusal: 404 for a key outside it, as for an unknown one; 403 for every other subject
 */
async function checkScope(request: FastifyRequest, subject: Subject, log: EventLog): Promise<void> {
  const scope = scopeOf(request);
  if (scope === undefined) return;
  if (subject.kind === 'key') {
    const path = (await knownOf(log, subject))?.['user_path'];
    if (!isWithin(scope, typeof path === 'string' ? (path as UserPath) : undefined)) throw noHistory(subject);
    return;
  }
  const path = pathOf(subject);
  if (path === undefined) throw refusals.adminScopeDenied();
  pathInScope(scope, path, 'subject');
}

/** The user path of the subject; undefined when it concerns the whole gateway. */
function pathOf({ kind, id }: Subject): UserPath | undefined {
  if (kind === 'user' || kind === 'budget') return id.startsWith('/') ? (id as UserPath) : undefined;
  return kind === 'rate-limit' && id.startsWith(OF_PATH) ? (id.slice(OF_PATH.length) as UserPath) : undefined;
}

function noHistory(subject: Subject) {
  return refusals.notFound('history of', subjectText(subject));
}

/** @throws Refusal 400 */
function subjectIn(query: Query): Subject | undefined {
  const given = single(query['subject']);
  if (given === undefined) return undefined;
  const subject = parseSubject(given);
  if (subject === undefined) {
    throw refusals.invalidRequest(
      `'subject' must be one of ${subjectKinds.map((kind) => `${kind}:…`).join(', ')}.`,
      'subject',
    );
  }
  return { kind: subject.kind, id: canonicalId(subject) };
}

const OF_PATH = 'user_path:';

/** User paths in the canonical form used in stream names. @throws Refusal 400 */
function canonicalId({ kind, id }: Subject): string {
  if (kind === 'user' || (kind === 'budget' && !id.startsWith('label:'))) return parseUserPath(id, 'subject');
  if (kind === 'rate-limit' && id.startsWith(OF_PATH)) {
    return OF_PATH + parseUserPath(id.slice(OF_PATH.length), 'subject');
  }
  return id;
}

/** @throws Refusal 400 */
function readPage(query: Query): HistoryQuery {
  const from = single(query['start']);
  const to = single(query['end']);
  return {
    limit: limitIn(query, PAGE),
    before: entryPositionIn(query, 'before'),
    after: entryPositionIn(query, 'after'),
    from: from === undefined ? undefined : dayOrTime(from, 'start'),
    to: to === undefined ? undefined : dayOrTime(to, 'end'),
  };
}
