/** `GET /admin/history`: admin changes with actor, time, and the values before and after. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { refusals } from '../../commands/refusal.ts';
import type { Position, UserPath } from '../../events/event.ts';
import type { EventLog } from '../../events/log.ts';
import {
  allHistory,
  type HistoryPage,
  type HistoryQuery,
  knownOf,
  parseSubject,
  type Subject,
  subjectHistory,
  subjectKinds,
  subjectText,
} from '../../projections/admin-history.ts';
import type { AdminJournal } from '../../projections/admin-journal.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import {
  numberParameter,
  parameterWithDefault,
  type QueryParameter,
  queryOfParameters,
  textParameter,
} from '../api/parameters.ts';
import { jsonAnswer, type Routes, scopedAdmin } from '../api/route-schema.ts';
import { dayOrTime } from '../dates.ts';
import { entryPositionIn } from '../paging.ts';
import { parseUserPath } from '../request-head.ts';
import { isWithin, pathInScope, scopeOf } from './admin-scope.ts';

export interface HistoryDependencies {
  readonly log: EventLog;
  readonly journal: Pick<RunningProjection<AdminJournal>, 'state' | 'whenProcessed'>;
}

const PAGE = { usual: 50, most: 200 };

const position = (name: 'before' | 'after', description: string): QueryParameter<Position | undefined> => ({
  description,
  schema: { type: 'string' },
  read: (query) => entryPositionIn(query, name),
});

const historyQuery = queryOfParameters({
  subject: textParameter(`\`<kind>:<id>\`; kinds: ${subjectKinds.join(', ')}. Default: all, for global administrators`),
  actor: textParameter('Only changes by `master`, `system` or `key:<id>`'),
  start: textParameter('First moment: a date, or a time with its zone'),
  end: textParameter('Last moment: a date, or a time with its zone'),
  limit: parameterWithDefault(numberParameter({ least: 1, most: PAGE.most }, 'Entries of the page'), PAGE.usual),
  before: position('before', 'Only entries before this position'),
  after: position('after', 'Only entries after this position; alone, the page begins there'),
});

const value = z.record(z.string(), z.unknown()).nullable();

const change = z.object({
  position: z.string().describe('Position in the log, as `before`, `after` and `as_of` accept it'),
  revision: z.string().describe('Number of the change in its stream'),
  at: z.iso.datetime(),
  actor: z.string().describe('`master`, `key:<id>` or `system`'),
  user_path: z.string().nullable().describe('User path of the actor'),
  request_id: z.string().nullable(),
  subject: z.string(),
  type: z.string(),
  before: value.describe('Secrets are masked; null when the subject did not exist'),
  after: value,
  changed: z.array(z.string()),
});

const historyPage = z.object({ entries: z.array(change), limit: z.int(), has_more: z.boolean() });

const summary = 'List admin changes with actor, time, and the values before and after';
const getHistory = scopedAdmin('adminHistory', summary, {
  description: 'Newest first. An administrator of a subtree names a `subject` within it.',
  querystring: historyQuery,
  response: { 200: jsonAnswer('A page of changes', historyPage) },
  errors: [404],
});

export function registerHistory(admin: Routes, { log, journal }: HistoryDependencies): void {
  admin.get('/history', getHistory, async (request) => {
    const page = readPage(request.query);
    const subject = subjectIn(request.query.subject);
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
function subjectIn(given: string | undefined): Subject | undefined {
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
function readPage({ start, end, limit, before, after, actor }: z.output<typeof historyQuery>): HistoryQuery {
  return {
    limit,
    before,
    after,
    actor,
    from: start === undefined ? undefined : dayOrTime(start, 'start'),
    to: end === undefined ? undefined : dayOrTime(end, 'end'),
  };
}
