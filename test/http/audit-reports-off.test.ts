/** The audit log without analytics or kept requests: empty in the same form; malformed input is still refused. */
import { describe, expect, test } from 'vitest';
import { errorOf, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const lists = ['log', 'sessions', 'stats', 'export'];

describe.each([
  ['while requests are not kept', { env: { LOGGING_ENABLED: 'false' } }],
  ['while analytics is off', {}],
])('%s', (_when, options) => {
  const it = withGateway(options);

  test('lists are empty', async () => {
    expect(await json(await it.fetch('/admin/audit/log?limit=7&offset=3'))).toEqual({
      entries: [],
      total: 0,
      limit: 7,
      offset: 3,
    });
    expect(await json(await it.fetch('/admin/audit/sessions'))).toEqual({
      sessions: [],
      total: 0,
      limit: 25,
      offset: 0,
    });
  });

  test('counts are zero', async () => {
    const stats = await json(await it.fetch('/admin/audit/stats?days=2'));
    expect(stats).toMatchObject({ interval: 'hour', provider_latency: [] });
    expect(stats.summary).toEqual({
      requests: 0,
      status_2xx: 0,
      status_4xx: 0,
      status_5xx: 0,
      status_other: 0,
      success_rate: 0,
      avg_duration_ms: 0,
    });
  });

  test.each(lists)('malformed parameters of %s are still refused', async (list) => {
    const answer = await it.fetch(`/admin/audit/${list}?end_date=yesterday`);
    expect(await errorOf(answer, 400)).toMatchObject({ param: 'end_date' });
  });

  test('SQL is refused with feature_unavailable', async () => {
    const answer = await it.fetch('/admin/sql', { json: { query: 'SELECT 1' } });
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable' });
    expect(await errorOf(await it.fetch('/admin/sql', { json: {} }), 400)).toMatchObject({ param: 'query' });
  });
});

describe('with requests that are not kept', () => {
  const it = withGateway({ env: { LOGGING_ENABLED: 'false' } });

  test('there are no buckets, no details, and an empty export', async () => {
    expect((await json(await it.fetch('/admin/audit/stats'))).buckets).toEqual([]);
    const detail = await it.fetch('/admin/audit/detail?log_id=one');
    expect(await errorOf(detail, 503)).toMatchObject({ code: 'feature_unavailable' });
    expect(await json(await it.fetch('/admin/audit/conversation?log_id=one'))).toEqual({
      anchor_id: 'one',
      entries: [],
      truncated: false,
    });
    const file = await it.fetch('/admin/audit/export?format=ndjson');
    expect([file.status, await file.text()]).toEqual([200, '']);
    expect(await (await it.fetch('/admin/audit/export')).text()).toMatch(/^id,timestamp,[a-z_,]+\r\n$/);
  });
});

describe('with analytics off', () => {
  const it = withGateway();

  test('a request is still returned whole, from the log', async () => {
    const answer = await it.post('/v1/chat/completions', {
      model: 'llamacpp/simulated-small',
      messages: user('Hello!'),
    });
    const said = await json(answer);
    const id = exchangeOf(answer);
    const entry = await json(await it.fetch(`/admin/audit/detail?log_id=${id}`));
    expect(entry).toMatchObject({
      id,
      status_code: 200,
      outcome: 'completed',
      provider_name: 'llamacpp',
      data: { attempts: [{ seq: 1, kind: 'primary', success: true }], response_body: said },
      usage: { entries: 1, input_tokens: said.usage.prompt_tokens, output_tokens: said.usage.completion_tokens },
    });
    const conversation = await json(await it.fetch(`/admin/audit/conversation?log_id=${id}`));
    expect(conversation.entries.map((one: { id: string }) => one.id)).toEqual([id]);
  });

  test('the error bodies of providers are returned too', async () => {
    it.simulated.control.next({ status: 400, message: 'no such thing' });
    const answer = await it.post('/v1/chat/completions', {
      model: 'llamacpp/simulated-small',
      messages: user('Hello!'),
    });
    expect(answer.status).toBe(400);
    const entry = await json(await it.fetch(`/admin/audit/detail?log_id=${exchangeOf(answer)}`));
    expect(entry).toMatchObject({ outcome: 'failed', status_code: 400 });
    expect(entry.data.attempts[0]).toMatchObject({ success: false, status_code: 400 });
    expect(JSON.stringify(entry.data.attempts[0].response_body)).toMatch(/no such thing/);
  });

  test('an export is refused in every format', async () => {
    for (const format of ['csv', 'ndjson', 'parquet']) {
      const answer = await it.fetch(`/admin/audit/export?format=${format}`);
      expect(await errorOf(answer, 503)).toMatchObject({
        code: 'feature_unavailable',
        message: expect.stringContaining('Analytics is off'),
      });
    }
    const parquet = await errorOf(await it.fetch('/admin/audit/export?format=parquet'), 503);
    expect(parquet.message).toContain('Parquet');
  });

  test('a body beyond a mebibyte is omitted, and marked as omitted', async () => {
    const answer = await it.post('/v1/chat/completions', {
      model: 'llamacpp/simulated-small',
      messages: user('x'.repeat(1024 * 1024)),
    });
    const { data } = await json(await it.fetch(`/admin/audit/detail?log_id=${exchangeOf(answer)}`));
    expect(data.request_body_too_big_to_handle).toBe(true);
    expect(data.request_body).toBeUndefined();
  });
});
