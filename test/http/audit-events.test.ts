/** The recorded events of one request over HTTP, with analytics off. */
import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { errorOf, exchangeOf, json, readUntil, user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway({ env: withGuardrails });
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';

async function chat(body: object = {}, init: RequestInit = {}): Promise<string> {
  const answer = await gateway.post('/v1/chat/completions', { model, messages: user('Hello!'), ...body }, init);
  await answer.text();
  return exchangeOf(answer);
}

const as = (value: string) => ({ headers: { authorization: `Bearer ${value}` } });
const events = (id: string, query = '', key?: string) => admin.get(`/admin/audit/events?log_id=${id}${query}`, key);
const typesOf = (page: Answered): string[] => page.events.map(({ type }: Answered) => type);

describe('GET /admin/audit/events', () => {
  it('returns the events of the stream in order, with envelope, data and body', async () => {
    const requestBody = JSON.stringify({ model, messages: user('Reply with exactly: žluť') });
    const answer = await gateway.post('/v1/chat/completions', requestBody, { headers: { 'x-request-id': 'mine' } });
    const sent = await answer.text();
    const id = exchangeOf(answer);
    const page = await events(id);
    expect(page).toMatchObject({ log_id: id, has_more: false, related: [] });
    expect(typesOf(page)).toEqual([
      'request.received',
      'model.resolved',
      'attempt.started',
      'chunk.received',
      'exchange.completed',
      'usage.recorded',
    ]);
    expect(page.events.map(({ revision }: Answered) => revision)).toEqual(['0', '1', '2', '3', '4', '5']);
    expect(page.events[0]).toMatchObject({
      stream: `exchange-${id}`,
      actor: 'master',
      request_id: 'mine',
      data: { dialect: 'chat', capture: 'full' },
      body: requestBody,
      body_bytes: Buffer.byteLength(requestBody),
    });
    expect(page.events[3].body).toBe(sent);
  });

  it('pages by revision', async () => {
    const id = await chat({ stream: true });
    const whole = await events(id);
    const paged: Answered[] = [];
    for (let after = ''; ; ) {
      const page = await events(id, `&limit=3${after}`);
      expect(page.related === undefined).toBe(page.has_more);
      paged.push(...page.events);
      if (!page.has_more) break;
      after = `&after=${page.events.at(-1).revision}`;
    }
    expect(whole.events.length).toBeGreaterThan(6);
    expect(paged).toEqual(whole.events);
  });

  it('cuts long bodies between two characters and returns the rest by revision and offset', async () => {
    const content = 'ä€😀'.repeat(50_000);
    const id = await chat({ messages: user(content) });
    const [received] = (await events(id, '&limit=1')).events;
    expect(received).toMatchObject({ body_cut: true });
    expect(Buffer.byteLength(received.body)).toBe(received.body_next_offset);
    expect(received.body_next_offset).toBeGreaterThan(256 * 1024 - 4);
    const rest = await events(id, `&revision=0&offset=${received.body_next_offset}`);
    expect(rest.events[0].body_cut).toBeUndefined();
    const whole = (await events(id, '&revision=0')).events[0].body;
    expect(received.body + rest.events[0].body).toBe(whole);
    expect(JSON.parse(whole).messages).toEqual(user(content));
  });

  it('returns bodies that are not text in base64', async () => {
    const bytes = Buffer.from([0xff, 0xfe, 0, 1]);
    const headers = { 'content-type': 'application/octet-stream' };
    const answer = await gateway.fetch('/p/llamacpp/anything', { method: 'POST', body: bytes, headers });
    await answer.text();
    const { events: found } = await events(exchangeOf(answer));
    const sent = found.filter(({ body_base64 }: Answered) => body_base64 !== undefined);
    expect(sent).toHaveLength(1);
    expect(Buffer.from(sent[0].body_base64, 'base64')).toEqual(bytes);
    expect(sent[0]).toMatchObject({ body_bytes: 4 });
  });

  it('returns the events of a running request, and later ones behind the last that was read', async () => {
    gateway.simulated.control.next({ holdAfterChunks: 2 });
    const answer = await gateway.post('/v1/chat/completions', { model, messages: user('Hello!'), stream: true });
    await readUntil(answer, 'data:');
    const id = exchangeOf(answer);
    // The first bytes are sent when the request is written, and its events are read when they are on disk.
    let running: Answered = { events: [] };
    await expect
      .poll(async () => {
        const page = await gateway.fetch(`/admin/audit/events?log_id=${id}`);
        if (page.ok) running = await json(page);
        return typesOf(running);
      })
      .toContain('attempt.started');
    expect(typesOf(running)).not.toContain('exchange.completed');
    expect(running.related).toEqual([]);
    const polled = await events(id, '&after=0');
    expect(typesOf(polled)).toContain('attempt.started');
    expect(polled.related).toBeUndefined();
    gateway.simulated.control.release();
    const last = running.events.at(-1).revision;
    let later: Answered[] = [];
    await expect
      .poll(async () => {
        later = (await events(id, `&after=${last}`)).events;
        return later.map(({ type }) => type);
      })
      .toContain('exchange.completed');
    expect(later[0].revision).toBe(String(Number(last) + 1));
  });

  it('links the stored response and the turn of the conversation', async () => {
    const conversation = await json(await gateway.post('/v1/conversations', {}));
    const answer = await gateway.post('/v1/responses', { model, input: 'Hello!', conversation: conversation.id });
    const response = await json(answer);
    const { related } = await events(exchangeOf(answer));
    expect(related).toMatchObject([
      { relation: 'recorded_with', id: response.id, stream: `response-${response.id}`, type: 'response.stored' },
      { relation: 'recorded_with', id: conversation.id, type: 'conversation.items_added', revision: '1' },
    ]);
    expect(Object.keys(related[0]).sort()).toEqual(['at', 'id', 'position', 'relation', 'revision', 'stream', 'type']);
  });

  it('links the exchanges that guardrails began, for administrators who may see them', async () => {
    const rewriter = { name: 'rewriter', type: 'llm_based_altering', config: { model }, user_path: '/guards' };
    await saveGuardrail(gateway, rewriter);
    await guard(gateway, '/altered', [{ ref: 'rewriter' }]);
    const { value } = await admin.newKey({ user_path: '/altered', dashboard_access: true });
    const id = await chat({}, as(value));
    const { related } = await events(id);
    expect(related).toMatchObject([{ relation: 'caused', type: 'request.received', revision: '0' }]);
    const { events: caused } = await events(related[0].id);
    expect(caused[0]).toMatchObject({ causation_id: id, data: { origin: 'plugin' } });
    expect((await events(id, '', value)).related).toEqual([]);
  });

  it('withholds the values that guardrails kept from the provider', async () => {
    await saveGuardrail(gateway, { name: 'personal', type: 'pii' });
    await guard(gateway, '/hidden', [{ ref: 'personal' }]);
    const { value } = await admin.newKey({ user_path: '/hidden' });
    const id = await chat({ messages: user('Write to ada@example.org') }, as(value));
    const { events: found } = await events(id);
    const assigned = found.find(({ type }: Answered) => type === 'placeholders.assigned');
    expect(assigned).toMatchObject({ body_withheld: true, data: { count: 1 } });
    expect(assigned.body_bytes).toBeGreaterThan(0);
    expect(JSON.stringify(assigned)).not.toContain('ada@');
    const alone = await events(id, `&revision=${assigned.revision}`);
    expect(JSON.stringify(alone)).not.toContain('ada@');

    const left = new AbortController();
    const live = await gateway.fetch(`/admin/live/logs?view=events&cursor=0&types=placeholders.assigned`, {
      signal: left.signal,
    });
    let text = '';
    for await (const piece of live.body ?? []) {
      text += Buffer.from(piece).toString();
      if (text.includes('placeholders.assigned') && text.endsWith('\n\n')) break;
    }
    left.abort();
    expect(text).toContain('"body_withheld":true');
    expect(text).not.toContain('ada@');
  });

  it('has no bodies where they are not recorded', async () => {
    await gateway.fetch('/admin/workflows', {
      json: {
        scope_user_path: '/quiet',
        name: 'quiet',
        workflow_payload: { schema_version: 2, features: { cache: true, audit: false, usage: true, guardrails: true } },
      },
    });
    const { value } = await admin.newKey({ user_path: '/quiet' });
    const { events: found } = await events(await chat({}, as(value)));
    expect(found[0].data.capture).toBe('metadata');
    for (const event of found) expect(Object.keys(event).filter((name) => name.startsWith('body'))).toEqual([]);
  });

  it('is recorded before content is sent, and not when there is nothing to send', async () => {
    const { id: keyId, value } = await admin.newKey({ user_path: '/team' });
    const id = await chat({}, as(value));
    const reads = async () =>
      (await admin.get('/admin/history?subject=audit:reads&limit=200')).entries.filter(
        ({ after }: Answered) => after.id === id,
      );
    const { events: found } = await events(id);
    await events(id, '&revision=0');
    await events(id, `&after=${found.at(-1).revision}`);
    expect(await reads()).toMatchObject(
      [1, 2].map(() => ({
        actor: 'master',
        after: { what: 'audit_events', id, owner: `key:${keyId}`, owner_path: '/team' },
      })),
    );
  });

  it('is 404 for a request outside the scope, as for an unknown one', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const other = await admin.newKey({ user_path: '/teammate' });
    const id = await chat({}, as(other.value));
    for (const one of [id, await chat(), 'unknown', 'no/name']) {
      const error = await admin.refused(`/admin/audit/events?log_id=${encodeURIComponent(one)}`, 404, boss.value);
      expect(error.message).toContain('audit entry');
    }
    await admin.refused(`/admin/audit/events?log_id=${id}&revision=0`, 404, boss.value);
    await admin.refused(`/admin/audit/events?log_id=${id}&revision=99`, 404);
  });

  it('names malformed parameters', async () => {
    for (const [query, param] of [
      ['', 'log_id'],
      ['?log_id=x&limit=1001', 'limit'],
      ['?log_id=x&limit=0', 'limit'],
      ['?log_id=x&after=-1', 'after'],
      ['?log_id=x&revision=last', 'revision'],
      ['?log_id=x&revision=0&offset=1e3', 'offset'],
    ]) {
      expect(await admin.refused(`/admin/audit/events${query}`, 400)).toMatchObject({ param });
    }
  });
});

describe('without kept requests', () => {
  const without = withGateway({ env: { LOGGING_ENABLED: 'false' } });

  it('is 503', async () => {
    const answer = await without.fetch('/admin/audit/events?log_id=one');
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable' });
  });
});
