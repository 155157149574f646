/**
 * The audit log over HTTP: equal to a fold of the log, limited to what the caller may see, and noted where bodies are
 * read.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { exchangeEnds } from '../../src/events/catalogue/exchange.ts';
import { guardrailApplied, guardrailVerdicts } from '../../src/events/catalogue/guardrail.ts';
import { streamName } from '../../src/events/event.ts';
import type { EventLog, ReadAllOptions } from '../../src/events/log.ts';
import type { Answered } from '../support/answered.ts';
import type { TestGateway } from '../support/gateway.ts';
import { errorOf, exchangeOf, json, user } from '../support/with-gateway.ts';
import { type AuditGateway, startAuditGateway } from './audit-gateway.ts';
import { hasChdb } from './embedded.ts';
import { costOf, type RequestFacts, requestsOfLog } from './requests-of-log.ts';

const HOUR_MS = 3_600_000;

/** The contents of the file, read by another process: this one's ClickHouse reads no files. */
async function rowsOfParquet(path: string): Promise<Answered[]> {
  const folder = mkdtempSync(join(tmpdir(), 'chancery-parquet-'));
  const engine = JSON.stringify(import.meta.resolve('../../src/http/clickhouse/embedded-clickhouse.ts'));
  const script = `const { openEmbeddedClickHouse } = await import(${engine});
    const engine = await openEmbeddedClickHouse({ folder: ${JSON.stringify(folder)}, access: { databases: [], files: true } });
    const connection = engine.connect({ role: 'writer', readOnly: false });
    const { bytes } = await connection.query("SELECT * FROM file('${path}', 'Parquet')", 'JSONEachRow');
    process.stdout.write(bytes);
    connection.close();
    await engine.close();`;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
  } finally {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

let it: AuditGateway;
let gateway: TestGateway;
let log: EventLog;
let salesKey: string;
let events: readonly RequestFacts[];

describe.skipIf(!hasChdb)('the audit log over HTTP', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const from = Date.now() - 50 * HOUR_MS;
    it = await startAuditGateway({ exchanges: 400, seed: 11, from, everyMs: 440_000 });
    ({ gateway, log } = it);
    salesKey = await keyFor('/sales');
    for (const words of ['=cmd()', 'Hello!']) await say(words);
    await say('And then?', { 'x-session-id': 'talk' });
    await say('The end.', { 'x-session-id': 'talk' });
    await it.caughtUp();
    events = await requestsOfLog(log);
  }, 60_000);
  afterAll(() => it?.close());

  async function keyFor(userPath: string): Promise<string> {
    const made = await gateway.fetch('/admin/auth-keys', {
      json: { name: userPath, user_path: userPath, dashboard_access: true },
    });
    expect(made.status).toBe(201);
    return (await json(made)).value;
  }

  async function say(words: string, headers: Record<string, string> = {}): Promise<string> {
    const answer = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: user(words) },
      headers,
    });
    expect(answer.status).toBe(200);
    await answer.text();
    return exchangeOf(answer);
  }

  async function ask(path: string, key?: string): Promise<Answered> {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const answer = await gateway.fetch(path, { headers });
    const text = await answer.text();
    expect({ status: answer.status, text: answer.ok ? '' : text }).toEqual({ status: 200, text: '' });
    return JSON.parse(text);
  }

  /** The recorded events of one request. */
  async function eventsOf(id: string) {
    const applied: { data: z.infer<typeof guardrailApplied.data>; body: Uint8Array | undefined }[] = [];
    const pieces: Record<string, Uint8Array[]> = { 'chunk.received': [], 'frame.delivered': [] };
    let received: Answered = {};
    let assigned = 0;
    let ended = false;
    for await (const { type, data, body } of log.readStream(streamName('exchange', id))) {
      if (type === 'request.received') received = data as Answered;
      if (type === guardrailApplied.type) applied.push({ data: guardrailApplied.data.parse(data), body });
      if (type === 'placeholders.assigned') assigned += 1;
      if (type === 'attempt.started') for (const name of Object.keys(pieces)) pieces[name] = [];
      if (body !== undefined) pieces[type]?.push(body);
      ended ||= exchangeEnds.has(type);
    }
    const text = (type: string) => new TextDecoder().decode(Buffer.concat(pieces[type] ?? []));
    return { applied, received, assigned, ended, chunks: text('chunk.received'), frames: text('frame.delivered') };
  }

  const newestFirst = (requests: readonly RequestFacts[]) => requests.map(({ id }) => id);
  const idsIn = (page: Answered): string[] => page.entries.map(({ id }: Answered) => id);

  async function reads(): Promise<Answered[]> {
    const options: ReadAllOptions = { filter: { types: ['audit.read'] } };
    const found: Answered[] = [];
    for await (const { data } of log.readAll(options)) found.push(data as Answered);
    return found;
  }

  test('pages through every request once, by offset and by cursor', async () => {
    const whole = newestFirst(events);
    const byOffset: string[] = [];
    for (let offset = 0; offset < whole.length; offset += 100) {
      const page = await ask(`/admin/audit/log?limit=100&offset=${offset}`);
      expect(page).toMatchObject({ total: whole.length, limit: 100, offset });
      byOffset.push(...idsIn(page));
    }
    expect(byOffset).toEqual(whole);
    const byCursor: string[] = [];
    let next = '';
    do {
      const page = await ask(`/admin/audit/log?limit=37${next}`);
      byCursor.push(...idsIn(page));
      next = page.next_cursor === undefined ? '' : `&cursor=${page.next_cursor}`;
    } while (next !== '');
    expect(byCursor).toEqual(whole);
  });

  test('filters as a fold of the log does', async () => {
    const has = (whole: string, part: string) => whole.toLowerCase().includes(part.toLowerCase());
    const cases: readonly (readonly [string, (request: RequestFacts) => boolean])[] = [
      ['method=post', () => true],
      ['method=GET', () => false],
      ['status_code=429', ({ status }) => status === 429],
      ['stream=true', ({ stream }) => stream],
      ['stream=false', ({ stream }) => !stream],
      ['requested_model=GPT-4O', ({ model }) => has(model, 'gpt-4o')],
      ['model=mini', ({ model }) => has(model, 'mini')],
      ['requested_model=%25', () => false],
      ['provider=anthropic', ({ providerType }) => providerType === 'anthropic'],
      ['provider=claude', ({ provider }) => provider === 'claude'],
      ['path=completions', () => true],
      ['error_type=rate_limit', ({ errorType }) => has(errorType, 'rate_limit')],
      ['session_id=session-3', ({ sessionId }) => sessionId === 'session-3'],
      ['user_path=/sales', ({ userPath }) => userPath === '/sales' || userPath.startsWith('/sales/')],
      ['user_path=/research/bob', ({ userPath }) => userPath === '/research/bob'],
      ['user_path=/', () => true],
      ['search=REQUEST-39', ({ requestId }) => requestId.includes('request-39')],
      ['search=it%20broke', ({ errorMessage }) => errorMessage === 'it broke'],
      ['search=no%09MORE', ({ errorMessage }) => errorMessage === 'no\tmore'],
      ["search=') OR 1=1 --", () => false],
      ['search=%5C', () => false],
      ['days=1', ({ at }) => at >= startOfToday()],
    ];
    for (const [query, isFound] of cases) {
      const wanted = newestFirst(events.filter(isFound));
      const page = await ask(`/admin/audit/log?limit=100&${query}`);
      expect({ query, total: page.total, ids: idsIn(page) }).toEqual({
        query,
        total: wanted.length,
        ids: wanted.slice(0, 100),
      });
    }
  });

  test('refuses wrong parameters by name', async () => {
    for (const [query, param] of [
      ['limit=101', 'limit'],
      ['limit=0', 'limit'],
      ['offset=-1', 'offset'],
      ['status_code=ok', 'status_code'],
      ['stream=perhaps', 'stream'],
      ['cursor=nonsense', 'cursor'],
      ['start_date=2026-02-30', 'start_date'],
    ]) {
      expect(await errorOf(await gateway.fetch(`/admin/audit/log?${query}`), 400)).toMatchObject({ param });
    }
    expect(await errorOf(await gateway.fetch('/admin/audit/detail'), 400)).toMatchObject({ param: 'log_id' });
    const conversation = await gateway.fetch('/admin/audit/conversation?log_id=x&limit=201');
    expect(await errorOf(conversation, 400)).toMatchObject({ param: 'limit' });
  });

  test('gives rows their usage, and no bodies', async () => {
    const { entries } = await ask('/admin/audit/log?limit=100&offset=4');
    let unreported = 0;
    for (const entry of entries) {
      const of = events.find(({ id }) => id === entry.id);
      expect(entry).toMatchObject({ bodies_omitted: true, conversation_payload: true, status_code: of?.status });
      expect(entry.data.attempts?.length ?? 0).toBe(of?.attempts);
      expect(entry.data.request_body).toBeUndefined();
      expect(entry.usage?.total_tokens).toBe(of?.tokens);
      if (of?.tokens === null) {
        const { input_tokens, output_tokens, cached_input_tokens, cached_input_ratio } = entry.usage;
        expect([input_tokens, output_tokens, cached_input_tokens, cached_input_ratio]).toEqual([
          null,
          null,
          null,
          null,
        ]);
        unreported += 1;
      }
      const cost = of === undefined ? null : costOf(of);
      expect(entry.usage?.total_cost ?? null).toBe(cost === null ? null : Number(cost) / 1e9);
    }
    expect(unreported).toBeGreaterThan(0);
  });

  test('lists threads by their newest request', async () => {
    const threads = Map.groupBy(events, ({ sessionId, userPath, id }) =>
      sessionId === '' ? id : `${userPath} ${sessionId}`,
    );
    const wanted = [...threads.values()].map((of) => [of[0]?.id, of.length]);
    const pages: Answered[] = [];
    for (let offset = 0; offset < wanted.length; offset += 100) {
      const page = await ask(`/admin/audit/sessions?limit=100&offset=${offset}`);
      expect(page).toMatchObject({ total: wanted.length, limit: 100, offset });
      pages.push(...page.sessions);
    }
    expect(pages.map(({ latest, request_count }) => [latest.id, request_count])).toEqual(wanted);
  });

  test('lists sessions with the tokens, the cost and the duration of all their requests', async () => {
    const entries: Answered[] = [];
    for (let cursor: string | undefined = ''; cursor !== undefined; ) {
      const page: Answered = await ask(`/admin/audit/log?limit=100${cursor === '' ? '' : `&cursor=${cursor}`}`);
      entries.push(...page.entries);
      cursor = page.next_cursor;
    }
    const { sessions } = await ask('/admin/audit/sessions?limit=100');
    const known = (values: (number | null | undefined)[]) => values.filter((value) => typeof value === 'number');
    const sum = (values: number[]) => (values.length === 0 ? null : values.reduce((all, value) => all + value, 0));
    let priced = 0;
    for (const { latest, first_at, duration_ms, total_tokens, total_cost } of sessions) {
      const its = entries.filter(({ id, session_id, user_path }: Answered) =>
        latest.session_id === undefined
          ? id === latest.id
          : session_id === latest.session_id && user_path === latest.user_path,
      );
      expect(total_tokens).toBe(sum(known(its.map(({ usage }: Answered) => usage?.total_tokens))));
      const cost = sum(known(its.map(({ usage }: Answered) => usage?.total_cost)));
      if (cost === null) expect(total_cost).toBeNull();
      else expect(total_cost).toBeCloseTo(cost, 12);
      if (its.length > 1 && cost !== null) priced += 1;
      const ends = its.map(({ timestamp, duration_ns }: Answered) => Date.parse(timestamp) + duration_ns / 1e6);
      expect(Math.abs(duration_ms - (Math.max(...ends) - Date.parse(first_at)))).toBeLessThan(2);
    }
    expect(priced).toBeGreaterThan(0);
  });

  test.each([
    ['hour', 'days=3', 'Asia/Kathmandu'],
    ['hour', 'days=1', 'UTC'],
    ['day', 'days=10', 'America/St_Johns'],
    ['day', '', 'no such zone'],
  ])('counts by the %s for %s in %s as the log does', async (interval, query, zone) => {
    const answer = await gateway.fetch(`/admin/audit/stats?${query}`, { headers: { 'x-gateway-timezone': zone } });
    expect(answer.status).toBe(200);
    const stats = await json(answer);
    expect(stats.interval).toBe(interval);
    const starts: number[] = stats.buckets.map(({ start }: Answered) => Date.parse(start));
    expect(starts.at(-1)).toBeLessThanOrEqual(Date.now());
    expect(Date.now() - (starts.at(-1) ?? 0)).toBeLessThan(25 * HOUR_MS);
    const counted = (requests: readonly RequestFacts[]) => ({
      requests: requests.length,
      status_2xx: requests.filter(({ status }) => status >= 200 && status < 300).length,
      status_4xx: requests.filter(({ status }) => status >= 400 && status < 500).length,
      status_5xx: requests.filter(({ status }) => status >= 500).length,
      status_other: requests.filter(({ status }) => status < 200 || (status >= 300 && status < 400)).length,
    });
    const inBucket = starts.map((start, place) =>
      events.filter(({ at }) => at >= start && at < (starts[place + 1] ?? Number.POSITIVE_INFINITY)),
    );
    for (const [place, requests] of inBucket.entries()) expect(stats.buckets[place]).toMatchObject(counted(requests));
    const all = inBucket.flat();
    const ok = all.filter(({ status }) => status >= 200 && status < 300);
    expect(stats.summary).toMatchObject({ ...counted(all), success_rate: ok.length / all.length });
    const mean = (requests: readonly RequestFacts[]) =>
      requests.reduce((sum, { durationMs }) => sum + durationMs, 0) / requests.length;
    expect(stats.summary.avg_duration_ms).toBeCloseTo(mean(all), 6);
    const fetched = ok.filter(({ attempts, cacheType }) => attempts > 0 && cacheType === '');
    const providers = [...new Set(fetched.map(({ provider }) => provider))].sort();
    expect(stats.provider_latency.map(({ provider }: Answered) => provider)).toEqual(providers);
    for (const series of stats.provider_latency) {
      expect(series.requests).toHaveLength(starts.length);
      for (const [place, requests] of inBucket.entries()) {
        const its = requests.filter((one) => fetched.includes(one) && one.provider === series.provider);
        expect(series.requests[place]).toBe(its.length);
        if (its.length === 0) expect(series.avg_duration_ms[place]).toBeNull();
        else expect(series.avg_duration_ms[place]).toBeCloseTo(mean(its), 6);
      }
    }
  });

  test('gives a whole entry from the log, equal to its row and with its bodies, and notes its reader', async () => {
    const { entries } = await ask('/admin/audit/log?limit=100&user_path=/sales');
    for (const { usage, bodies_omitted, conversation_payload, ...row } of entries.slice(0, 10)) {
      const before = (await reads()).length;
      const full = await ask(`/admin/audit/detail?log_id=${row.id}`, salesKey);
      expect(full).toMatchObject(row);
      expect(full.usage).toEqual(usage);
      expect(full.data.request_body.messages).toHaveLength(1);
      expect((await reads()).slice(before)).toMatchObject([{ what: 'audit_entry', id: row.id }]);
    }
  });

  test('gives the workflow and the verdicts of a request, in lists and whole', async () => {
    const { entries } = await ask('/admin/audit/log?limit=100&search=request-');
    const guarded = entries.filter(({ data }: Answered) => data.guardrails !== undefined);
    expect(guarded.length).toBeGreaterThan(10);
    for (const entry of guarded.slice(0, 5)) {
      const { applied, received } = await eventsOf(entry.id);
      const { workflow } = received;
      expect(entry.workflow_version_id).toBe(workflow.id);
      expect(entry.data).toMatchObject({ workflow_version: workflow.version, workflow_scope: workflow.scope });
      expect(entry.data.workflow_features).toEqual({
        ...{ audit: true, usage: true, budget: true, guardrails: true },
        ...{ cache: workflow.off === undefined, failover: workflow.off === undefined },
      });
      const runs = applied.flatMap(({ data }) => data.runs.map((run) => ({ ...run, phase: data.phase })));
      expect(
        entry.data.guardrails.map(
          ({ phase, step, instance, type, action, edited, duration_ns, findings }: Answered) => ({
            ...{ phase, step, guardrail: instance, type, verdict: action, edited, durationNs: duration_ns, findings },
          }),
        ),
      ).toEqual(runs.map(({ code, message, error, failMode, ...run }) => ({ ...run, findings: run.findings })));
      expect(entry.data.guardrails.map(({ code }: Answered) => code)).toEqual(runs.map(({ code }) => code));
      const strongest = guardrailVerdicts.findLast((verdict) => runs.some((run) => run.verdict === verdict));
      expect(entry.data.guardrail_verdict).toBe(strongest);
      expect(entry.data.request_revisions).toBeUndefined();
      const full = await ask(`/admin/audit/detail?log_id=${entry.id}`);
      expect(full.data.guardrails).toEqual(entry.data.guardrails);
    }
    const withoutWorkflow = entries.find(({ workflow_version_id: id }: Answered) => id === undefined);
    expect(withoutWorkflow?.data.workflow_features).toBeUndefined();
  });

  test('gives what guardrails changed: the request, and the answer beside that of the provider', async () => {
    const { entries } = await ask('/admin/audit/log?limit=100&search=request-');
    const seen = { revised: 0, delivered: 0, restored: 0 };
    for (const { id } of entries) {
      const { applied, chunks, frames, assigned, ended } = await eventsOf(id);
      const text = await (await gateway.fetch(`/admin/audit/detail?log_id=${id}`)).text();
      if (assigned > 0) seen.restored += 1;
      expect(text).not.toContain('secret-value');
      const { data } = JSON.parse(text);
      const revised = applied.filter(({ body }) => body !== undefined);
      expect((data.request_revisions ?? []).map(({ body }: Answered) => body)).toEqual(
        revised.map(() => ({ changed: '[EMAIL_1]' })),
      );
      if (revised.length > 0) {
        seen.revised += 1;
        const [{ bytes_before, bytes_after }] = data.request_revisions;
        expect(bytes_before).toBeGreaterThan(20);
        expect(bytes_after).toBe('{"changed":"[EMAIL_1]"}'.length);
        expect(data.request_body.messages).toHaveLength(1);
      }
      if (frames === '') continue;
      seen.delivered += 1;
      expect(data.response_body).toBe(frames);
      expect(data.attempts.at(-1).response_body).toBe(chunks);
      expect(ended).toBe(true);
    }
    for (const [what, times] of Object.entries(seen)) expect(times, what).toBeGreaterThan(3);
  });

  test('gives the answer that the client got, as JSON or as a stream', async () => {
    const whole = await ask(`/admin/audit/detail?log_id=${await say('Whole')}`);
    expect(whole.data.response_body.choices).toHaveLength(1);
    expect(whole.data.request_headers.authorization).not.toMatch(/test-master-key/);
    const streamed = await gateway.fetch('/v1/chat/completions', {
      json: { model: 'llamacpp/simulated-small', messages: user('In pieces'), stream: true },
    });
    const text = await streamed.text();
    const entry = await ask(`/admin/audit/detail?log_id=${exchangeOf(streamed)}`);
    expect(entry.data.response_body).toBe(text);
  });

  test('answers 404 for an unknown entry', async () => {
    for (const id of ['none', '../x', '0198c1d0-0000-7000-8000-000000000000']) {
      const answer = await gateway.fetch(`/admin/audit/detail?log_id=${encodeURIComponent(id)}`);
      expect(await errorOf(answer, 404)).toMatchObject({ type: 'not_found_error' });
      expect(await ask(`/admin/audit/conversation?log_id=${encodeURIComponent(id)}`)).toEqual({
        anchor_id: id,
        entries: [],
        truncated: false,
      });
    }
  });

  test('puts a conversation together, oldest first, from its session', async () => {
    const talk = events.filter(({ sessionId, requestId }) => sessionId === 'talk' && !requestId.startsWith('request-'));
    const [last, first] = talk;
    const before = (await reads()).length;
    const answer = await ask(`/admin/audit/conversation?log_id=${last?.id}`);
    expect(answer).toMatchObject({ anchor_id: last?.id, truncated: false });
    expect(idsIn(answer)).toEqual([first?.id, last?.id]);
    const said = answer.entries.map(({ data }: Answered) => data.request_body.messages[0].content);
    expect(said).toEqual(['And then?', 'The end.']);
    expect(answer.entries[0].data.response_body.choices).toHaveLength(1);
    expect(answer.entries[0].data.attempts).toBeUndefined();
    expect((await reads()).slice(before)).toEqual([{ what: 'audit_conversation', filter: { log_id: last?.id } }]);
    const shorter = await ask(`/admin/audit/conversation?log_id=${last?.id}&limit=1`);
    expect(idsIn(shorter)).toEqual([last?.id]);
    expect(shorter.truncated).toBe(true);
  });

  test('follows a response back to the earlier one that it continues', async () => {
    const respond = async (body: object) => {
      const answer = await gateway.fetch('/v1/responses', { json: { model: 'llamacpp/simulated-small', ...body } });
      expect(answer.status).toBe(200);
      return { id: exchangeOf(answer), response: await json(answer) };
    };
    const first = await respond({ input: 'One' });
    const second = await respond({ input: 'Two', previous_response_id: first.response.id });
    const third = await respond({ input: 'Three', previous_response_id: second.response.id });
    await it.caughtUp();
    const answer = await ask(`/admin/audit/conversation?log_id=${third.id}`);
    expect(idsIn(answer)).toEqual([first.id, second.id, third.id]);
  });

  test('an administrator of a subtree finds the entries in it, and no others', async () => {
    const mine = events.filter(({ userPath }) => userPath === '/sales' || userPath.startsWith('/sales/'));
    const foreign = events.find(({ userPath }) => userPath.startsWith('/research'));
    const page = await ask('/admin/audit/log?limit=100', salesKey);
    expect({ total: page.total, ids: idsIn(page) }).toEqual({
      total: mine.length,
      ids: newestFirst(mine).slice(0, 100),
    });
    const stats = await ask('/admin/audit/stats?days=5', salesKey);
    expect(stats.summary.requests).toBe(mine.length);
    const headers = { authorization: `Bearer ${salesKey}` };
    const outside = await gateway.fetch('/admin/audit/log?user_path=/research', { headers });
    expect(await errorOf(outside, 403)).toMatchObject({ code: 'user_path_out_of_scope' });
    const before = (await reads()).length;
    for (const path of ['detail', 'conversation']) {
      await errorOf(await gateway.fetch(`/admin/audit/${path}?log_id=${foreign?.id}`, { headers }), 404);
    }
    expect(await reads()).toHaveLength(before);
    const file = await gateway.fetch('/admin/audit/export?format=ndjson', { headers });
    expect((await file.text()).trim().split('\n')).toHaveLength(mine.length);
  });

  test('exports everything the filter finds, once, and notes it', async () => {
    const wanted = newestFirst(events.filter(({ model }) => model.includes('gpt-4o')));
    const before = (await reads()).length;
    const file = await gateway.fetch('/admin/audit/export?format=ndjson&requested_model=gpt-4o');
    expect(file.headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8');
    expect(file.headers.get('content-disposition')).toBe('attachment; filename="audit-log.ndjson"');
    expect(file.headers.get('x-total-count')).toBe(String(wanted.length));
    const lines = (await file.text()).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(wanted);
    expect((await reads()).slice(before)).toEqual([
      { what: 'audit_export', filter: { format: 'ndjson', requested_model: 'gpt-4o' } },
    ]);
  });

  test('a client that leaves in the middle of a file leaves nothing behind', async () => {
    const leave = new AbortController();
    const file = await gateway.fetch('/admin/audit/export?format=ndjson', { signal: leave.signal });
    leave.abort();
    await expect(file.text()).rejects.toThrow(/abort/);
    expect((await ask('/admin/audit/log?limit=1')).entries).toHaveLength(1);
  });

  test('as Parquet it has the same rows, typed', async () => {
    const before = (await reads()).length;
    const filter = 'search=request-&session_id=session-3';
    const answer = await gateway.fetch(`/admin/audit/export?format=parquet&${filter}`);
    expect(answer.headers.get('content-type')).toBe('application/vnd.apache.parquet');
    expect(answer.headers.get('content-disposition')).toBe('attachment; filename="audit-log.parquet"');
    const wanted = events.filter(({ sessionId }) => sessionId === 'session-3');
    expect(answer.headers.get('x-total-count')).toBe(String(wanted.length));
    const path = join(it.dataDir, 'audit.parquet');
    writeFileSync(path, Buffer.from(await answer.arrayBuffer()));
    const rows = await rowsOfParquet(path);
    expect(rows.map(({ id }) => id)).toEqual(newestFirst(wanted));
    const inCsv = await (await gateway.fetch(`/admin/audit/export?${filter}`)).text();
    const [head = '', ...lines] = inCsv.trimEnd().split('\r\n');
    expect(Object.keys(rows[0] ?? {})).toEqual(head.split(','));
    const cells = lines.map((line) =>
      Object.fromEntries(line.split(',').map((cell, at) => [head.split(',')[at], cell])),
    );
    for (const name of ['status_code', 'user_path', 'model', 'input_tokens', 'output_tokens', 'attempts']) {
      expect(
        rows.map((row) => String(row[name] ?? '')),
        name,
      ).toEqual(cells.map((cell) => cell[name]));
    }
    expect(rows.map(({ total_cost_usd: cost }) => (cost === null ? null : Number(cost)))).toEqual(
      wanted.map((one) => {
        const cost = costOf(one);
        return cost === null ? null : Number(cost) / 1e9;
      }),
    );
    expect(rows.every(({ labels }) => Array.isArray(labels))).toBe(true);
    expect((await reads()).slice(before)[0]).toMatchObject({
      what: 'audit_export',
      filter: { format: 'parquet', session_id: 'session-3' },
    });
  });

  test('as Parquet it is a file without rows where the filter finds nothing', async () => {
    const answer = await gateway.fetch('/admin/audit/export?format=parquet&session_id=none');
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect(bytes.subarray(0, 4).toString()).toBe('PAR1');
    expect(bytes.subarray(-4).toString()).toBe('PAR1');
  });

  test('as CSV it has a head, a line for each request, and exact money', async () => {
    const file = await gateway.fetch('/admin/audit/export?search=request-&session_id=session-3');
    expect(file.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    const [head = '', ...lines] = (await file.text()).trimEnd().split('\r\n');
    const wanted = events.filter(({ sessionId }) => sessionId === 'session-3');
    expect(lines).toHaveLength(wanted.length);
    const names = head.split(',');
    const cells = lines.map((line) => line.split(','));
    expect(cells.map((row) => row[0])).toEqual(newestFirst(wanted));
    const cost = names.indexOf('total_cost_usd');
    expect(cells.map((row) => row[cost])).toEqual(
      wanted
        .map(costOf)
        .map((nano) =>
          nano === null ? '' : `${nano / 1_000_000_000n}.${String(nano % 1_000_000_000n).padStart(9, '0')}`,
        ),
    );
  });

  describe('questions in SQL', () => {
    const sql = (query: string, format?: string) => gateway.fetch('/admin/sql', { json: { query, format } });

    test('are answered in the requested format, and noted', async () => {
      const before = (await reads()).length;
      const question = 'SELECT count() AS requests FROM exchanges WHERE request_id LIKE {p: String}';
      const plain = "SELECT count() AS requests FROM exchanges WHERE request_id LIKE 'request-%'";
      const answer = await sql(plain);
      expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
      expect(await json(answer)).toMatchObject({ meta: [{ name: 'requests' }], rows: 1 });
      const csv = await sql(plain, 'CSVWithNames');
      expect(csv.headers.get('content-type')).toMatch(/^text\/csv/);
      expect(await csv.text()).toBe('"requests"\n400\n');
      const steering = await sql("SELECT concat('a', char(27), '[31m') AS x", 'CSV');
      expect(await steering.text()).toBe('"a\\u001b[31m"\n');
      expect((await reads()).slice(before)).toEqual([
        { what: 'sql', filter: { query: plain, format: 'JSON' } },
        { what: 'sql', filter: { query: plain, format: 'CSVWithNames' } },
        { what: 'sql', filter: { query: "SELECT concat('a', char(27), '[31m') AS x", format: 'CSV' } },
      ]);
      expect((await errorOf(await sql(question), 400)).message).toMatch(/p/);
    });

    test.each([
      ['DROP TABLE exchanges', 'sql_refused', /DROP TABLE exchanges is not for readers/],
      ['INSERT INTO exchanges (id) VALUES (1)', 'sql_refused', /INSERT is not for readers/],
      ['SET max_result_rows = 0', 'sql_refused', /SET max_result_rows is not for readers/],
      ["SELECT * FROM file('/etc/passwd')", 'sql_refused', /file is not among the functions for readers/],
      ["SELECT * FROM url('http://127.0.0.1/')", 'sql_refused', /url\(…\) is not among the functions for readers/],
      ['SELECT nonsense FROM exchanges', 'sql_refused', /nonsense/],
      ['SELECT number FROM numbers(1000000)', 'sql_over_limit', /Limit for result exceeded/i],
      ['SELECT 1 SETTINGS max_result_rows = 10000000', 'sql_refused', /max_result_rows|readonly/],
      ['SELECT 1; DROP TABLE exchanges', 'sql_refused', /readonly|not for readers|Syntax/i],
    ])("%s is refused with ClickHouse's message", async (query, code, message) => {
      const error = await errorOf(await sql(query), 400);
      expect(error).toMatchObject({ code, param: 'query', type: 'invalid_request_error' });
      expect(error.message).toMatch(message);
    });

    test('are refused with an unknown format, without text or above 256 KiB', async () => {
      expect(await errorOf(await sql('SELECT 1', 'Parquet'), 400)).toMatchObject({ param: 'format' });
      expect(await errorOf(await sql('  '), 400)).toMatchObject({ param: 'query' });
      expect(await errorOf(await sql(`SELECT '${'x'.repeat(256 * 1024)}'`), 400)).toMatchObject({ param: 'query' });
    });
  });
});

function startOfToday(): number {
  return Math.floor(Date.now() / (24 * HOUR_MS)) * 24 * HOUR_MS;
}
