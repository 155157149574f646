import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Caller } from '../../src/commands/model-request/model-request.ts';
import { everything } from '../../src/commands/visibility.ts';
import type { UserPath } from '../../src/events/event.ts';
import { MemoryLog } from '../../src/events/memory/memory-log.ts';
import { createAsOf } from '../../src/http/admin/as-of.ts';
import { mountAdmin } from '../../src/http/admin/mount.ts';
import { createErrorHandler } from '../../src/http/errors.ts';
import { journalOf } from '../../src/projections/admin-journal.ts';
import { createProjectionRunner } from '../../src/projections/runner.ts';
import { bareServer } from '../support/bare-server.ts';
import { announcementSubject, announcementsView, registerAnnouncements } from './announcements.ts';

const master: Caller = { actor: 'master', authMethod: 'master_key', visibility: everything };

/** An administrator of the paths at and below this one. */
function administratorOf(userPath: string): Caller {
  const path = userPath as UserPath;
  const key = { id: userPath, userPath: path, dashboardAccess: true, allowedModels: [], labels: [] };
  return { actor: `key:${userPath}`, authMethod: 'api_key', visibility: { of: 'subtree', path }, userPath: path, key };
}

const log = new MemoryLog();
const projections = createProjectionRunner(log);
const view = projections.run(announcementsView);
const journal = projections.run(journalOf([announcementSubject]));
const app = bareServer();
let caller = master;

beforeAll(async () => {
  app.setErrorHandler(createErrorHandler(() => {}));
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.decorateRequest('caller', undefined);
  app.decorate('registerLater', () => {});
  app.addHook('onRequest', async (request) => {
    request.caller = caller;
  });
  const asOf = createAsOf({ log, journal, now: Date.now });
  mountAdmin(app, (admin) => registerAnnouncements(admin, { log, asOf, view }), undefined);
  await app.ready();
});

afterAll(() => Promise.all([app.close(), projections.close()]));

async function call(method: 'GET' | 'PUT' | 'DELETE', path: string, body?: object, headers: object = {}, by = master) {
  caller = by;
  const answer = await app.inject({
    method,
    url: `/admin/announcements${path}`,
    headers: { ...headers },
    ...(body && { payload: body }),
  });
  const json = answer.body === '' ? undefined : answer.json();
  return { status: answer.statusCode, etag: answer.headers['etag'], json, code: json?.error?.code };
}

const save = (body: object, headers?: object, by?: Caller) => call('PUT', '', body, headers, by);

describe('a resource that the kernel mounts', () => {
  it('has at most 100 lines', () => {
    const lines = readFileSync(join(import.meta.dirname, 'announcements.ts'), 'utf8').split('\n');
    expect(lines.length).toBeLessThanOrEqual(100);
  });

  it('is saved, read with its ETag, listed by name, and changed under If-Match', async () => {
    const first = await save({ name: 'b', text: 'one' });
    expect(first).toMatchObject({
      status: 200,
      etag: '"0"',
      json: { name: 'b', user_path: '/', text: 'one', revision: '0' },
    });
    await save({ name: 'a', text: 'other' });
    expect((await call('GET', '')).json).toMatchObject([{ name: 'a' }, { name: 'b' }]);
    expect(await save({ name: 'b', text: 'two' }, { 'if-match': '"0"' })).toMatchObject({ status: 200, etag: '"1"' });
    expect(await save({ name: 'b', text: 'late' }, { 'if-match': '"0"' })).toMatchObject({ status: 409 });
    expect(await call('GET', '/b')).toMatchObject({ status: 200, etag: '"1"', json: { text: 'two' } });
  });

  it('records nothing when it is saved unchanged', async () => {
    const before = await log.head();
    expect(await save({ name: 'a', text: 'other' })).toMatchObject({ status: 200, etag: '"0"' });
    expect(await log.head()).toBe(before);
  });

  it('refuses a body that its schema or its own check does not accept', async () => {
    expect(await save({ name: 'c' })).toMatchObject({ status: 400, json: { error: { param: 'text' } } });
    expect(await save({ name: 'c', text: ' ' })).toMatchObject({ status: 400, json: { error: { param: 'text' } } });
    expect(await save({ name: 'c', text: 'x' }, { 'if-match': 'x' })).toMatchObject({ status: 400 });
  });

  it('is shown as of a past position, also after it was removed', async () => {
    await save({ name: 'past', text: 'was here' });
    const position = await log.head();
    expect(await call('DELETE', '?name=past')).toMatchObject({ status: 204 });
    expect(await call('GET', '/past')).toMatchObject({ status: 404, code: 'not_found' });
    expect(await call('DELETE', '?name=past')).toMatchObject({ status: 404 });
    expect(await call('GET', `/past?as_of=${position}`)).toMatchObject({ status: 200, json: { text: 'was here' } });
    expect((await call('GET', `?as_of=${position}`)).json).toHaveLength(3);
  });

  it('of another subtree does not exist for an administrator of a subtree', async () => {
    const own = administratorOf('/team');
    await save({ name: 'theirs', user_path: '/other', text: 'x' });
    expect(await save({ name: 'ours', text: 'x' }, {}, own)).toMatchObject({
      status: 200,
      json: { user_path: '/team' },
    });
    expect((await call('GET', '', undefined, {}, own)).json).toMatchObject([{ name: 'ours' }]);
    expect(await call('GET', '/theirs', undefined, {}, own)).toMatchObject({ status: 404 });
    expect(await save({ name: 'theirs', text: 'mine' }, {}, own)).toMatchObject({ status: 404 });
    expect(await call('DELETE', '?name=theirs', undefined, {}, own)).toMatchObject({ status: 404 });
    expect(await save({ name: 'new', user_path: '/other', text: 'x' }, {}, own)).toMatchObject({ status: 403 });
  });

  it('is the same after a restart from a snapshot', () => {
    const saved: unknown = deserialize(serialize(announcementsView.save?.(view.state)));
    expect(announcementsView.load?.(saved).byKey).toEqual(view.state.byKey);
  });
});
