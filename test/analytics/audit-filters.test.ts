/** The filters of the audit log over HTTP, compared with the entries of the whole log. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { pairsOf, someOf } from '../support/seed.ts';
import { errorOf, exchangeOf, json, user } from '../support/with-gateway.ts';
import { type AuditGateway, startAuditGateway } from './audit-gateway.ts';
import { hasChdb } from './embedded.ts';

const HOUR_MS = 3_600_000;
const WORKFLOW = 'f0000000-0000-4000-8000-000000000001';
const routes = ['log', 'sessions', 'export', 'stats', 'histogram', 'facets', 'sql'];

let it: AuditGateway;
/** Every entry, newest first. */
let all: readonly Answered[];
const keys = { sales: '', salesId: '', plain: '', plainId: '' };
/** Of a response, a turn in a conversation, and a refusal. */
const made = { response: '', item: '', turn: '', turnItem: '' };

describe.skipIf(!hasChdb)('filters of the audit log', { timeout: 60_000 }, () => {
  beforeAll(async () => {
    const from = Date.now() - 50 * HOUR_MS;
    it = await startAuditGateway({ exchanges: 400, seed: 7, from, everyMs: 440_000, refusals: true });
    [keys.salesId, keys.sales] = await newKey({ name: 'Sales lead', user_path: '/sales', dashboard_access: true });
    [keys.plainId, keys.plain] = await newKey({ name: 'Somewhere', user_path: '/research' });
    await talk();
    await it.caughtUp();
    all = await everyEntry();
  }, 60_000);
  afterAll(() => it?.close());

  async function newKey(body: object): Promise<[string, string]> {
    const { id, value } = await json(await it.gateway.fetch('/admin/auth-keys', { json: body }));
    return [id, value];
  }

  async function talk(): Promise<void> {
    const as = (value: string) => ({ authorization: `Bearer ${value}` });
    const model = 'llamacpp/simulated-small';
    for (const key of [keys.sales, keys.plain]) {
      const chat = { model, messages: user('Hello') };
      await (await it.gateway.fetch('/v1/chat/completions', { json: chat, headers: as(key) })).text();
    }
    const answer = await it.gateway.fetch('/v1/responses', { json: { model, input: 'Hi' }, headers: as(keys.plain) });
    made.response = exchangeOf(answer);
    made.item = (await json(answer)).output[0].id;
    const items = [{ type: 'message', role: 'user', content: 'Before' }];
    const conversation = await json(await it.gateway.fetch('/v1/conversations', { json: { items } }));
    const turn = await it.gateway.fetch('/v1/responses', {
      json: { model, input: 'Now', conversation: conversation.id },
    });
    made.turn = exchangeOf(turn);
    await turn.text();
    const { data } = await json(await it.gateway.fetch(`/v1/conversations/${conversation.id}/items?limit=1`));
    made.turnItem = data[0].id;
  }

  async function everyEntry(): Promise<Answered[]> {
    const entries: Answered[] = [];
    let cursor = '';
    do {
      const page = await ask(`log?limit=100&days=9${cursor}`);
      entries.push(...page.entries);
      cursor = page.next_cursor === undefined ? '' : `&cursor=${page.next_cursor}`;
    } while (cursor !== '');
    return entries;
  }

  async function ask(path: string, key?: string): Promise<Answered> {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const answer = await it.gateway.fetch(`/admin/audit/${path}`, { headers });
    const text = await answer.text();
    expect({ status: answer.status, text: answer.ok ? '' : text }).toEqual({ status: 200, text: '' });
    return JSON.parse(text);
  }

  const idsOf = (entries: readonly Answered[]): string[] => entries.map(({ id }) => id);
  const numberOf = (entries: readonly Answered[]) => entries.reduce((sum, { requests = 1 }) => sum + requests, 0);

  type Case = readonly [query: string, isFound: (entry: Answered) => boolean];
  const acted = ({ data }: Answered, name: string) =>
    data.guardrails?.some((run: Answered) => run.instance === name && (run.action !== 'allow' || run.edited)) === true;
  const cases: readonly Case[] = [
    ['outcome=failed', ({ outcome }) => outcome === 'failed'],
    ['outcome=failed,refused', ({ outcome }) => outcome === 'failed' || outcome === 'refused'],
    ['outcome=failed&outcome=disconnected', ({ outcome }) => outcome === 'failed' || outcome === 'disconnected'],
    ['status_class=2xx', ({ status_code: status }) => status >= 200 && status < 300],
    ['status_class=4xx,5xx', ({ status_code: status }) => status >= 400 && status < 600],
    ['status_class=other', ({ status_code: status }) => status < 200 || (status >= 300 && status < 400)],
    ['status_code=429,499', ({ status_code: status }) => status === 429 || status === 499],
    ['error_code=budget_exceeded', ({ data }) => data.error_code === 'budget_exceeded'],
    [
      'error_code=x%09y&error_code=budget_exceeded',
      ({ data }) => ['x\ty', 'budget_exceeded'].includes(data.error_code),
    ],
    ['auth_key_id=key-3&auth_key_id=key-4', ({ auth_key_id: id }) => id === 'key-3' || id === 'key-4'],
    ['session_id=session-3&session_id=session-4', ({ session_id: id }) => id === 'session-3' || id === 'session-4'],
    ['has_session=true', ({ session_id: id }) => id !== undefined],
    [
      'has_session=false&outcome=completed',
      ({ session_id: id, outcome }) => id === undefined && outcome === 'completed',
    ],
    ["label=it's", ({ data }) => data.labels?.includes("it's") === true],
    ['label=team-0&label=team-1', ({ data }) => data.labels?.some((one: string) => /^team-[01]$/.test(one)) === true],
    ['label=team', () => false],
    ['requested_model_is=openai/gpt-4o', ({ requested_model: model }) => model === 'openai/gpt-4o'],
    ['provider_name=claude&provider_name=local', ({ provider_name: name }) => name === 'claude' || name === 'local'],
    ['provider_model=gpt-4o-mini', ({ resolved_model: model }) => model === 'openai/gpt-4o-mini'],
    ['method=post', ({ method }) => method === 'POST'],
    ['method=get', () => false],
    ['endpoint=/v1/chat/completions', ({ path = '' }) => path.startsWith('/v1/chat/completions')],
    ['endpoint=/v1/chat/completions?x=1', () => false],
    ['cache_type=exact', ({ cache_type: type }) => type === 'exact'],
    ['cache_type=none,semantic', ({ cache_type: type }) => type === undefined || type === 'semantic'],
    ['guardrail=rail-1', (entry) => acted(entry, 'rail-1')],
    ['guardrail=rail-1&guardrail=rail-2', (entry) => acted(entry, 'rail-1') || acted(entry, 'rail-2')],
    ['guardrail_verdict=block,failure', ({ data }) => ['block', 'failure'].includes(data.guardrail_verdict)],
    ['guardrail_verdict=none', ({ data }) => data.guardrail_verdict === undefined],
    ['guardrails_edited=true', ({ data }) => data.guardrails_edited === true],
    ['min_duration_ms=100', ({ duration_ns: ns }) => ns >= 100_000_000],
    [`workflow=${WORKFLOW}`, (entry) => entry.workflow_version_id === WORKFLOW],
    ["workflow=path:/sales/it's%09here", ({ data }) => data.workflow_version === 7],
    ['user_agent=GENERATED', ({ data }) => data.user_agent === 'generated/1'],
    ['search=no%09more&outcome=refused', ({ data }) => data.error_message === 'no\tmore'],
    ["search=it's%5C' OR 1=1", () => false],
    [
      'user_path=/sales&outcome=completed',
      (entry) => entry.user_path.startsWith('/sales') && entry.outcome === 'completed',
    ],
  ];

  const someCases = someOf(cases, ([query]) => [...new URLSearchParams(query).keys()]);

  test.each(someCases)('%s finds the same requests as a filter of the whole log', async (query, isFound) => {
    const wanted = all.filter(isFound);
    const page = await ask(`log?limit=100&${query}`);
    expect({ total: page.total, ids: idsOf(page.entries) }).toEqual({
      total: wanted.length,
      ids: idsOf(wanted).slice(0, 100),
    });
  });

  test('every filter finds some requests and not all', () => {
    const without = cases.filter(([, isFound]) => !all.some(isFound)).map(([query]) => query);
    expect(without).toEqual([
      'status_class=other',
      'label=team',
      'method=get',
      'endpoint=/v1/chat/completions?x=1',
      "search=it's%5C' OR 1=1",
    ]);
    for (const [query, isFound] of cases) expect({ query, all: all.every(isFound) }).toEqual({ query, all: false });
  });

  test('the range from an instant to another is half-open, to the millisecond', async () => {
    const timeOf = ({ timestamp }: Answered) => Date.parse(timestamp);
    const [to, from] = [all[40]?.timestamp, all[90]?.timestamp];
    const wanted = all.filter((entry) => timeOf(entry) >= Date.parse(from) && timeOf(entry) < Date.parse(to));
    expect(wanted.length).toBeGreaterThan(40);
    const page = await ask(`log?limit=100&from=${from}&to=${to}`);
    expect(idsOf(page.entries)).toEqual(idsOf(wanted));
    expect(idsOf(page.entries)).toContain(all[90]?.id);
    const inZone = `${new Date(Date.parse(from) + 2 * HOUR_MS).toISOString().slice(0, -1)}%2B02:00`;
    expect(idsOf((await ask(`log?limit=100&from=${inZone}&to=${to}`)).entries)).toEqual(idsOf(wanted));
    const open = await ask(`log?limit=100&from=${all[60]?.timestamp}&days=1`);
    expect(idsOf(open.entries)).toEqual(idsOf(all.filter((entry) => timeOf(entry) >= timeOf(all[60]))));
    const stats = await ask(`stats?from=${from}&to=${to}`);
    expect(stats.summary.requests).toBe(numberOf(wanted));
  });

  const malformed: readonly (readonly [query: string, param: string])[] = [
    ['from=2026-03-01', 'from'],
    ['from=2026-03-01T00:00:00', 'from'],
    ['to=2026-02-30T00:00:00Z', 'to'],
    ['from=2026-03-02T00:00:00Z&to=2026-03-02T00:00:00Z', 'from'],
    ['from=2001-03-02T00:00:00Z&to=2026-03-02T00:00:00Z', 'from'],
    ['from=2026-03-02T00:00:00Z&start_date=2026-03-01', 'from'],
    ['to=2026-03-02T00:00:00Z&end_date=2026-03-01', 'to'],
    ['outcome=failed,lost', 'outcome'],
    ['status_class=3xx', 'status_class'],
    ['status_code=200,abc', 'status_code'],
    ['cache_type=all', 'cache_type'],
    ['guardrail_verdict=maybe', 'guardrail_verdict'],
    ['guardrails_edited=some', 'guardrails_edited'],
    ['min_duration_ms=-1', 'min_duration_ms'],
    [`label=${'x'.repeat(1025)}`, 'label'],
    [Array.from({ length: 51 }, (_, n) => `auth_key_id=${n}`).join('&'), 'auth_key_id'],
  ];
  const refused = someOf(pairsOf(routes, malformed), ([route, filter]) => [route, filter]);
  test.each(refused.map(([route, [query, param]]) => [route, param, query] as const))(
    '%s refuses a malformed %s',
    async (route, param, query) => {
      const error = await errorOf(await it.gateway.fetch(`/admin/audit/${route}?${query}`), 400);
      expect(error, query).toMatchObject({ param });
    },
  );

  describe('the id', () => {
    test('of an exchange, a request, a session or a key finds requests outside the selected days', async () => {
      const old = all.findLast(({ session_id: session }) => session !== undefined);
      const refused = all.find(({ requests }) => requests > 1);
      expect(Date.now() - Date.parse(old?.timestamp)).toBeGreaterThan(26 * HOUR_MS);
      const finds: readonly (readonly [string, string, (entry: Answered) => boolean])[] = [
        ['exchange', old?.id, ({ id }) => id === old?.id],
        ['request', old?.request_id, ({ request_id: id }) => id === old?.request_id],
        ['session', old?.session_id, ({ session_id: id }) => id === old?.session_id],
        ['key', 'key-5', ({ auth_key_id: id }) => id === 'key-5'],
        ['exchange', refused?.id, ({ id }) => id === refused?.id],
      ];
      for (const [kind, id, isFound] of finds) {
        const page = await ask(`log?limit=100&days=1&id=${id}`);
        const wanted = all.filter(isFound);
        expect(wanted.length).toBeGreaterThan(0);
        expect({ found: page.found_by, ids: idsOf(page.entries) }).toEqual({ found: [kind], ids: idsOf(wanted) });
        const { buckets } = await ask(`histogram?id=${id}`);
        expect(buckets.reduce((sum: number, { requests }: Answered) => sum + requests, 0)).toBe(numberOf(wanted));
      }
    });

    test('of a response or an item finds the request that created it', async () => {
      const { data } = all.find(({ id }) => id === made.response) ?? {};
      const byResponse = await ask(`log?id=${data.response_id}`);
      expect([byResponse.found_by, idsOf(byResponse.entries)]).toEqual([['response'], [made.response]]);
      const byItem = await ask(`log?id=${made.item}`);
      expect([byItem.found_by, idsOf(byItem.entries)]).toEqual([['item'], [made.response]]);
      const inConversation = await ask(`log?id=${made.turnItem}`);
      expect([inConversation.found_by, idsOf(inConversation.entries)]).toEqual([['item'], [made.turn]]);
    });

    test('of a session finds it by the name that the client gave it, under every path', async () => {
      const ids: string[] = [];
      for (const key of [keys.sales, keys.plain]) {
        const answer = await it.gateway.fetch('/v1/chat/completions', {
          json: { model: 'llamacpp/simulated-small', messages: user('Again') },
          headers: { authorization: `Bearer ${key}`, 'x-session-id': 'of the client' },
        });
        await answer.text();
        ids.unshift(exchangeOf(answer));
      }
      await it.caughtUp();
      const page = await ask(`log?id=${encodeURIComponent('of the client')}`);
      expect([page.found_by, idsOf(page.entries)]).toEqual([['session'], ids]);
      const inScope = await ask(`log?id=${encodeURIComponent('of the client')}`, keys.sales);
      expect([inScope.found_by, idsOf(inScope.entries)]).toEqual([['session'], ids.slice(1)]);
      all = await everyEntry();
    });

    test('of a trace finds its requests, by the trace id and by the whole traceparent', async () => {
      const trace = '0af7651916cd43dd8448eb211c80319c';
      const traceparent = `00-${trace}-b7ad6b7169203331-01`;
      const ids: string[] = [];
      for (const key of [keys.sales, keys.plain]) {
        const answer = await it.gateway.fetch('/v1/chat/completions', {
          json: { model: 'llamacpp/simulated-small', messages: user('Traced') },
          headers: { authorization: `Bearer ${key}`, traceparent },
        });
        await answer.text();
        ids.unshift(exchangeOf(answer));
      }
      await it.caughtUp();
      for (const search of [trace, traceparent, trace.toUpperCase()]) {
        expect(idsOf((await ask(`log?search=${search}`)).entries)).toEqual(ids);
      }
      expect(idsOf((await ask(`log?search=${trace}`, keys.sales)).entries)).toEqual(ids.slice(1));
      expect(idsOf((await ask('log?search=11111111111111111111111111111111')).entries)).toEqual([]);
      const query = `SELECT id FROM exchanges WHERE trace_id = '${trace}' ORDER BY at DESC`;
      const rows = await (await it.gateway.fetch('/admin/sql', { json: { query, format: 'TabSeparated' } })).text();
      expect(rows.trim().split('\n')).toEqual(ids);
      all = await everyEntry();
    });

    test('is combined with the other filters and with an explicit range', async () => {
      const failed = all.filter((entry) => entry.auth_key_id === 'key-5' && entry.outcome === 'failed');
      expect(idsOf((await ask('log?limit=100&id=key-5&outcome=failed')).entries)).toEqual(idsOf(failed));
      const from = new Date(Date.now() - 10 * HOUR_MS).toISOString();
      const late = all.filter((entry) => entry.auth_key_id === 'key-5' && entry.timestamp >= from);
      expect(idsOf((await ask(`log?limit=100&id=key-5&from=${from}`)).entries)).toEqual(idsOf(late));
    });

    test('of an item outside the scope does not tell the ids of its response and its request', async () => {
      for (const id of [made.item, made.turnItem]) {
        const { sql } = await ask(`sql?id=${id}`, keys.sales);
        const unknown = `${id.slice(0, -3)}fff`;
        const range = /toDateTime64\('[^']+'/g;
        const { sql: ofUnknown } = await ask(`sql?id=${unknown}`, keys.sales);
        expect(sql.replaceAll(range, '')).toBe(ofUnknown.replaceAll(range, '').replaceAll(unknown, id));
      }
    });

    test('that is unknown, or outside the scope, finds nothing', async () => {
      const foreign = all.find(({ user_path: path }) => path.startsWith('/research'));
      for (const id of ['none', "'); DROP", foreign?.id, foreign?.request_id, made.item, keys.plainId]) {
        const page = await ask(`log?id=${encodeURIComponent(id)}`, keys.sales);
        expect(page).toMatchObject({ entries: [], total: 0, found_by: [] });
      }
    });
  });

  describe('facets', () => {
    const valuesOf: Readonly<Record<string, (entry: Answered) => readonly (string | undefined)[]>> = {
      outcome: ({ outcome }) => [outcome],
      status_code: ({ status_code: status }) => [String(status)],
      error_code: ({ data }) => [data.error_code],
      user_path: ({ user_path: path }) => [path],
      auth_key_id: ({ auth_key_id: id }) => [id],
      label: ({ data }) => data.labels ?? [],
      requested_model: ({ requested_model: model }) => [model],
      provider_name: ({ provider_name: name }) => [name],
      method: ({ method }) => [method],
      stream: ({ stream }) => [String(stream)],
      cache_type: ({ cache_type: type = 'none' }) => [type],
      guardrail_verdict: ({ data }) => [data.guardrail_verdict ?? 'none'],
      session_id: ({ session_id: id }) => [id],
    };

    function counted(entries: readonly Answered[], field: string): Readonly<Record<string, number>> {
      const counts: Record<string, number> = {};
      for (const entry of entries) {
        for (const value of valuesOf[field]?.(entry) ?? []) {
          if (value !== undefined && value !== '') counts[value] = (counts[value] ?? 0) + (entry.requests ?? 1);
        }
      }
      return counts;
    }

    const asCounts = ({ values }: Answered) =>
      Object.fromEntries(values.map(({ value, requests }: Answered) => [value, requests]));

    test('count the requests of each value', async () => {
      const { facets } = await ask('facets?days=9');
      const fields = facets.map(({ field }: Answered) => field);
      expect(fields).toEqual(expect.arrayContaining([...Object.keys(valuesOf), 'model', 'endpoint']));
      for (const facet of facets.filter(({ field }: Answered) => field in valuesOf)) {
        const wanted = counted(all, facet.field);
        expect(facet.values).toHaveLength(Math.min(20, Object.keys(wanted).length));
        expect({ field: facet.field, ...wanted }).toMatchObject({ field: facet.field, ...asCounts(facet) });
        const numbers = facet.values.map(({ requests }: Answered) => requests);
        expect(numbers).toEqual(numbers.toSorted((one: number, other: number) => other - one));
      }
    });

    test('ignore the filter of their own field, and no other', async () => {
      const { facets } = await ask('facets?days=9&outcome=failed&stream=true&fields=outcome,stream,method');
      expect(facets.map(({ field }: Answered) => field)).toEqual(['outcome', 'stream', 'method']);
      const streams = all.filter(({ stream }) => stream);
      const failed = all.filter(({ outcome }) => outcome === 'failed');
      expect(asCounts(facets[0])).toEqual(counted(streams, 'outcome'));
      expect(asCounts(facets[1])).toEqual(counted(failed, 'stream'));
      expect(asCounts(facets[2])).toEqual(
        counted(
          streams.filter((one) => failed.includes(one)),
          'method',
        ),
      );
      const paths = (await ask('facets?days=9&user_path=/sales&fields=user_path')).facets[0];
      expect(asCounts(paths)).toEqual(counted(all, 'user_path'));
    });

    test('name the parameter that selects one of their values', async () => {
      const { facets } = await ask('facets?days=9');
      for (const { parameter, values } of facets) {
        const [{ value, requests }] = values;
        const page = await ask(`stats?days=9&${parameter}=${encodeURIComponent(value)}`);
        // A user path selects its whole subtree.
        if (parameter === 'user_path') expect(page.summary.requests).toBeGreaterThanOrEqual(requests);
        else expect({ parameter, requests: page.summary.requests }).toEqual({ parameter, requests });
      }
    });

    test('name keys, and for an administrator of a subtree only those in it', async () => {
      const named = ({ facets: [facet] }: Answered) =>
        Object.fromEntries(facet.values.map(({ value, name }: Answered) => [value, name]));
      const path = 'facets?days=9&fields=auth_key_id,user_path';
      const whole = named(await ask(path));
      expect(whole[keys.salesId] ?? whole[keys.plainId]).toMatch(/Sales lead|Somewhere/);
      const sales = await ask(path, keys.sales);
      expect(named(sales)).toMatchObject({ [keys.salesId]: 'Sales lead' });
      expect(named(sales)).not.toHaveProperty(keys.plainId);
      const mine = all.filter(({ user_path: at }) => at === '/sales' || at.startsWith('/sales/'));
      expect(asCounts(sales.facets[0])).toEqual(counted(mine, 'auth_key_id'));
      expect(asCounts(sales.facets[1])).toEqual(counted(mine, 'user_path'));
      const below = await ask('facets?days=9&user_path=/sales/north&fields=user_path', keys.sales);
      expect(asCounts(below.facets[0])).toEqual(counted(mine, 'user_path'));
    });

    test('refuse an unknown field', async () => {
      const answer = await it.gateway.fetch('/admin/audit/facets?fields=outcome,body');
      expect(await errorOf(answer, 400)).toMatchObject({ param: 'fields' });
    });
  });

  test.each(['stats', 'histogram', 'log', 'sessions', 'facets', 'sql', 'export'])(
    '%s is empty for a range before 1970',
    async (route) => {
      for (const query of ['end_date=1969-12-31', 'end_date=0031-01-01', 'to=1970-01-05T00:00:00Z']) {
        const answer = await it.gateway.fetch(`/admin/audit/${route}?${query}`, {
          headers: { 'x-gateway-timezone': 'America/St_Johns' },
        });
        expect({ query, status: answer.status }).toEqual({ query, status: 200 });
        await answer.text();
      }
    },
  );

  test('the histogram has every bucket of the range, also empty ones', async () => {
    const { interval, buckets, from } = await ask('histogram?days=7&outcome=failed');
    expect(interval).toBe('PT3H');
    expect(buckets.length).toBeLessThanOrEqual(120);
    expect(buckets[0].start).toBe(from);
    const starts: number[] = buckets.map(({ start }: Answered) => Date.parse(start));
    expect(new Set(starts.slice(1).map((start, place) => start - (starts[place] ?? 0)))).toEqual(
      new Set([3 * HOUR_MS]),
    );
    const failed = all.filter(({ outcome }) => outcome === 'failed');
    for (const [place, start] of starts.entries()) {
      const inside = failed.filter(({ timestamp }) => {
        const at = Date.parse(timestamp);
        return at >= start && at < start + 3 * HOUR_MS;
      });
      expect(buckets[place]).toMatchObject({ requests: inside.length, status_2xx: inside.length, status_4xx: 0 });
    }
    expect(buckets.some(({ requests }: Answered) => requests === 0)).toBe(true);
    const mine = await ask('histogram?days=7', keys.sales);
    const sales = all.filter(({ user_path: at }) => at === '/sales' || at.startsWith('/sales/'));
    expect(mine.buckets.reduce((sum: number, { requests }: Answered) => sum + requests, 0)).toBe(numberOf(sales));
  });

  describe('SQL for a filter', () => {
    const run = async (sql: string) => {
      const answer = await it.gateway.fetch('/admin/sql', { json: { query: sql } });
      const { data } = await json(answer);
      return idsOf(data);
    };

    test.each(cases)('of %s finds the same requests', async (query, isFound) => {
      const { sql } = await ask(`sql?days=9&${query}`);
      expect(await run(sql)).toEqual(idsOf(all.filter(isFound)));
    });

    test('has literals instead of parameters, and the condition of an id', async () => {
      const { sql } = await ask(`sql?id=key-5`);
      expect(sql).not.toMatch(/[{}$]/);
      expect(sql).toContain("(auth_key_id IN ('key-5'))");
      expect(await run(sql)).toEqual(idsOf(all.filter(({ auth_key_id: id }) => id === 'key-5')));
    });

    test('contains the scope of an administrator of a subtree', async () => {
      const { sql } = await ask('sql?days=9', keys.sales);
      expect(sql).toContain("user_path = '/sales' OR startsWith(user_path, '/sales/')");
      const mine = all.filter(({ user_path: at }) => at === '/sales' || at.startsWith('/sales/'));
      expect(await run(sql)).toEqual(idsOf(mine));
    });
  });

  test('sessions have their number of failures and their first request', async () => {
    const { sessions } = await ask('sessions?days=9&has_session=true&limit=100');
    expect(sessions.length).toBeGreaterThan(20);
    for (const { latest, request_count, failed_count, first_at } of sessions) {
      const ofIt = all.filter((one) => one.session_id === latest.session_id && one.user_path === latest.user_path);
      expect(ofIt[0]?.id).toBe(latest.id);
      expect({ request_count, failed_count, first_at }).toEqual({
        request_count: ofIt.length,
        failed_count: ofIt.filter(({ status_code: status }) => status === 0 || status >= 400).length,
        first_at: ofIt.at(-1)?.timestamp,
      });
    }
  });

  test('with total=false nothing is counted', async () => {
    for (const [route, rows] of [
      ['log', 'entries'],
      ['sessions', 'sessions'],
    ] as const) {
      const page = await ask(`${route}?limit=5&total=false`);
      expect(page).not.toHaveProperty('total');
      expect(page[rows]).toHaveLength(5);
      expect((await ask(`${route}?limit=5`)).total).toBeGreaterThan(5);
    }
  });

  test('the export of the whole log has every entry', async () => {
    const file = await it.gateway.fetch('/admin/audit/export?format=ndjson&days=9');
    const lines = (await file.text()).trim().split('\n');
    expect(lines.map((line) => JSON.parse(line).id)).toEqual(idsOf(all));
  });

  test('the export has the same filters', async () => {
    for (const format of ['csv', 'ndjson']) {
      const file = await it.gateway.fetch(`/admin/audit/export?format=${format}&guardrail=rail-1&days=9`);
      expect(file.headers.get('x-total-count')).toBe(String(all.filter((entry) => acted(entry, 'rail-1')).length));
      await file.text();
    }
    const parquet = await it.gateway.fetch('/admin/audit/export?format=parquet&guardrail=rail-1&days=9&id=key-5');
    expect([parquet.status, (await parquet.arrayBuffer()).byteLength > 100]).toEqual([200, true]);
    const { entries } = await json(await it.gateway.fetch('/admin/history?subject=audit:reads&limit=1'));
    expect(entries[0].after.filter).toMatchObject({ guardrail: 'rail-1', id: 'key-5', days: '9' });
  });
});
