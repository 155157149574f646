/** Labels and sessions of requests: the configured rules, and the recorded result. */
import { describe, expect, it } from 'vitest';
import { errorOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const ROUTE = '/admin/tagging/settings';
const MODEL = 'llamacpp/simulated-small';
const gateway = withGateway({ env: { TAGGING_HEADER_1: 'X-Project', TAGGING_HEADER_1_PREFIX: 'p:' } });
const managed = { header: 'x-project', prefix: 'p:', delimiter: ',', do_not_pass: false, managed: true };

function put(headers: unknown, ifMatch?: string): Promise<Response> {
  const conditional: Record<string, string> = ifMatch === undefined ? {} : { 'if-match': ifMatch };
  return gateway.fetch(ROUTE, { method: 'PUT', json: { headers }, headers: conditional });
}

async function received(headers: Record<string, string>, more: object = {}) {
  const answer = await gateway.fetch('/v1/chat/completions', {
    json: { model: MODEL, messages: user('Hello!'), ...more },
    headers,
  });
  expect(answer.status).toBe(200);
  const events = await eventsOfExchange(gateway, exchangeOf(answer));
  return events.find(({ type }) => type === 'request.received')?.data;
}

describe('the rules of tagging', () => {
  it('come from the configuration at first', async () => {
    const answer = await gateway.fetch(ROUTE);
    expect(answer.headers.get('etag')).toBe('"none"');
    expect(await json(answer)).toEqual({ headers: [managed], editable: true });
  });

  it('apply to the headers of the next request', async () => {
    const answer = await put([{ header: 'X-Team', delimiter: ';' }]);
    expect(answer.headers.get('etag')).toBe('"0"');
    const team = { header: 'x-team', delimiter: ';', do_not_pass: false };
    expect(await json(answer)).toEqual({ headers: [managed, team], editable: true });
    const { labels } = await received({ 'x-team': 'red; blue;red', 'x-project': 'p:apollo' });
    expect(labels).toEqual(['apollo', 'red', 'blue']);
  });

  it('add no labels to a request without such headers', async () => {
    expect(await received({})).not.toHaveProperty('labels');
  });

  it('are replaced all together, and only at the revision in If-Match', async () => {
    expect((await put([{ header: 'x-other' }], '"0"')).headers.get('etag')).toBe('"1"');
    expect((await errorOf(await put([], '"0"'), 409)).code).toBe('revision_mismatch');
    expect((await put([{ header: 'x-other' }])).headers.get('etag')).toBe('"1"');
    const { labels } = await received({ 'x-team': 'red', 'x-other': 'a' });
    expect(labels).toEqual(['a']);
  });

  it.each([
    ['no list', 'x-team', 'headers'],
    ['a rule without a header', [{}], 'headers.0.header'],
    ['an empty header', [{ header: ' ' }], 'headers.0.header'],
    ['an invalid header name', [{ header: 'a b' }], 'headers.0.header'],
    ['a header with credentials', [{ header: 'Authorization' }], 'headers.0.header'],
    ['two rules for a header', [{ header: 'x-a' }, { header: 'X-A' }], 'headers.1.header'],
    ['a rule of the configuration', [{ header: 'X-Project' }], 'headers.0.header'],
    ['a rule as it was shown of the configuration', [managed], 'headers.0.managed'],
    ['a delimiter that is too long', [{ header: 'x-a', delimiter: '12345678901' }], 'headers.0.delimiter'],
    ['do_not_pass that is not a boolean', [{ header: 'x-a', do_not_pass: 'yes' }], 'headers.0.do_not_pass'],
  ])('%s is refused by name, and nothing changes', async (_what, headers, param) => {
    const before = await json(await gateway.fetch(ROUTE));
    expect((await errorOf(await put(headers), 400)).param).toBe(param);
    expect(await json(await gateway.fetch(ROUTE))).toEqual(before);
  });

  it('remove a header from a request that is passed on to a provider', async () => {
    await put([{ header: 'openai-project', do_not_pass: true }, { header: 'openai-organization' }]);
    const answer = await gateway.fetch('/p/llamacpp/health', {
      headers: { 'openai-project': '4711', 'openai-organization': 'yes' },
    });
    expect(answer.status).toBe(200);
    const { headers } = gateway.lastProviderRequest();
    expect(headers['openai-organization']).toBe('yes');
    expect(headers).not.toHaveProperty('openai-project');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events[0]?.data.labels).toEqual(['4711', 'yes']);
  });

  it('add to the labels of the key', async () => {
    await put([{ header: 'x-team' }]);
    const made = await gateway.fetch('/admin/auth-keys', { json: { name: 'labelled', labels: ['own', 'shared'] } });
    const { value } = await json(made);
    const { labels } = await received({ authorization: `Bearer ${value}`, 'x-team': 'shared, more' });
    expect(labels).toEqual(['own', 'shared', 'more']);
    expect((await received({ authorization: `Bearer ${value}` })).labels).toEqual(['own', 'shared']);
  });
});

describe('the session of a request', () => {
  it('is recorded from a header', async () => {
    expect((await received({ 'x-session-id': 'mine' })).sessionId).toBe('mine');
  });

  it('is recorded from the body, when no header names it', async () => {
    expect((await received({}, { prompt_cache_key: 'from the body' })).sessionId).toBe('from the body');
    expect((await received({ 'session-id': 'a' }, { prompt_cache_key: 'b' })).sessionId).toBe('a');
  });

  it('is scoped to its user path', async () => {
    const { sessionId } = await received({ 'x-session-id': 'mine', 'x-gateway-user-path': '/team' });
    expect(sessionId).toMatch(/^scoped-[0-9a-f]{32}$/);
  });

  it('is absent when the request names none', async () => {
    expect(await received({})).not.toHaveProperty('sessionId');
  });

  it('is part of the recorded usage', async () => {
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: MODEL, messages: user('Hello!') },
      headers: { 'x-session-id': 'used', 'x-team': 'red' },
    });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const usage = events.find(({ type }) => type === 'usage.recorded')?.data;
    expect(usage).toMatchObject({ sessionId: 'used', labels: ['red'] });
  });

  it('is recognised in every dialect', async () => {
    const of = async (path: string, json: object) => {
      const answer = await gateway.fetch(path, { json, headers: { 'anthropic-version': '2023-06-01' } });
      expect(answer.status).toBe(200);
      const events = await eventsOfExchange(gateway, exchangeOf(answer));
      return events[0]?.data.sessionId;
    };
    const uuid = '0b0e7c3a-1d2f-4a5b-8c6d-7e8f90a1b2c3';
    const metadata = { user_id: `user_1_account__session_${uuid}` };
    expect(await of('/v1/messages', { model: MODEL, max_tokens: 9, messages: user('Hello!'), metadata })).toBe(uuid);
    expect(await of('/v1/responses', { model: MODEL, input: 'Hello!', prompt_cache_key: 'k' })).toBe('k');
  });
});
