import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startTestGateway } from '../support/gateway.ts';
import {
  errorOf,
  eventsOfExchange,
  eventsUntil,
  exchangeOf,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway({ env: { GUARDRAILS_ENABLED: 'true' } });
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';
const features = { cache: true, audit: true, usage: true, guardrails: true };
const reply = (words: string) => `Reply with exactly: ${words}`;

const words = (name: string, rules: string, action = 'replace') => ({
  name,
  type: 'string_replace',
  config: { rules, on_match: action },
});
const draft = (path: string, steps: object[], guardrails: object[] = [], more: object = {}) => ({
  workflow: { scope_user_path: path, workflow_payload: { features, steps } },
  guardrails,
  from: '2020-01-01',
  ...more,
});

const start = (body: object) => gateway.fetch('/admin/guardrails/replay', { json: body });

/** The run after its end. */
async function ended({ id }: { id: string }): Promise<Answered> {
  for (;;) {
    const run = await admin.get(`/admin/guardrails/replay/${id}`);
    if (run.status !== 'running') return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function replayed(body: object): Promise<Answered> {
  const answer = await start(body);
  expect(answer.status, await answer.clone().text()).toBe(202);
  expect(answer.headers.get('location')).toMatch(/^\/admin\/guardrails\/replay\//);
  return ended(await json(answer));
}

async function ask(userPath: string, route: string, body: object): Promise<string> {
  const answer = await gateway.post(route, { model, ...body }, { headers: { 'x-gateway-user-path': userPath } });
  expect(answer.status, await answer.clone().text()).toBe(200);
  await answer.text();
  const id = exchangeOf(answer);
  await eventsOfExchange(gateway, id);
  return id;
}

/** The same words asked in every dialect. */
const dialects: readonly (readonly [string, string, (words: string) => object])[] = [
  ['chat', '/v1/chat/completions', (text) => ({ messages: user(text) })],
  ['a chat stream', '/v1/chat/completions', (text) => ({ messages: user(text), stream: true })],
  ['responses', '/v1/responses', (text) => ({ input: text })],
  ['a stream of responses', '/v1/responses', (text) => ({ input: text, stream: true })],
  ['messages', '/v1/messages', (text) => ({ messages: user(text), max_tokens: 50 })],
  ['a stream of messages', '/v1/messages', (text) => ({ messages: user(text), max_tokens: 50, stream: true })],
  ['completions', '/v1/completions', (text) => ({ prompt: text })],
  ['a stream of completions', '/v1/completions', (text) => ({ prompt: text, stream: true })],
];

describe('POST /admin/guardrails/replay', () => {
  it.each(dialects)('evaluates prompt and answer of %s', async (what, route, body) => {
    const path = `/dialects/${what.replaceAll(' ', '-')}`;
    const plain = await ask(path, route, body(reply('apple')));
    const answered = await ask(path, route, body(reply('pear tree')));
    const refused = await ask(path, route, body(reply('cherry')));
    const run = await replayed(
      draft(
        path,
        [
          { ref: 'no-cherry', phase: 'prompt' },
          { ref: 'no-tree', phase: 'response' },
          { ref: 'no-tree', phase: 'stream' },
        ],
        [words('no-cherry', 'cherry', 'block'), words('no-tree', 'tree => bush')],
      ),
    );
    expect(run.result).toMatchObject({
      requests: 3,
      verdicts: { blocked: 1, changed: 1, passed: 1, failed: 0, responded: 0, warned: 0 },
      not_evaluated: {},
      answers_not_evaluated: {},
    });
    const phase = what.includes('stream') ? 'stream' : 'response';
    expect(run.result.examples).toEqual([
      {
        ...{ verdict: 'blocked', exchange_id: refused, at: expect.any(String), guardrail: 'no-cherry' },
        ...{ phase: 'prompt', code: 'guardrail_blocked', detail: `/admin/audit/detail?log_id=${refused}` },
        recorded: { verdict: 'passed', status: 200 },
      },
      expect.objectContaining({ verdict: 'changed', exchange_id: answered, guardrail: 'no-tree', phase }),
      expect.objectContaining({ verdict: 'passed', exchange_id: plain }),
    ]);
    const figures = Object.fromEntries(run.result.guardrails.map((one: Answered) => [one.phase, one]));
    expect(figures.prompt).toMatchObject({ runs: 3, verdicts: { block: 1, allow: 2 }, edited: 0 });
    expect(figures[phase]).toMatchObject({ runs: 2, edited: 1, findings: expect.any(Object) });
  });

  it('collects a stream for a guardrail of the response phase, as for a request', async () => {
    const body = { messages: user(reply('pear tree')), stream: true };
    await ask('/collected', '/v1/chat/completions', body);
    const steps = [{ ref: 'tree', phase: 'response' }];
    const run = await replayed(draft('/collected', steps, [words('tree', 'pear tree', 'block')]));
    expect(run.result).toMatchObject({
      verdicts: { blocked: 1 },
      examples: [{ phase: 'response', guardrail: 'tree' }],
    });
    const both = [...steps, { ref: 'tree', phase: 'stream' }];
    const streamed = await replayed(draft('/collected', both, [words('tree', 'pear tree', 'block')]));
    expect(streamed.result).toMatchObject({ verdicts: { blocked: 1 }, examples: [{ phase: 'stream' }] });
  });

  it('has the verdicts that requests of the created draft then get', async () => {
    const path = '/created';
    const guardrails = [words('created-cherry', 'cherry', 'block'), words('created-tree', 'tree => bush')];
    const steps = [
      { ref: 'created-cherry', phase: 'prompt' },
      { ref: 'created-tree', phase: 'response' },
    ];
    const asked = [reply('cherry'), reply('pear tree'), reply('plum')];
    for (const stream of [false, true]) {
      for (const text of asked) await ask(path, '/v1/chat/completions', { messages: user(text), stream });
    }
    const before = await replayed(draft(path, steps, guardrails));
    expect(before.result.verdicts).toMatchObject({ blocked: 2, changed: 2, passed: 2 });
    for (const guardrail of guardrails) await admin.change('PUT', '/admin/guardrails', guardrail);
    const workflow = { ...draft(path, steps).workflow, name: 'created' };
    await admin.change('POST', '/admin/workflows', workflow);
    const from = new Date().toISOString();
    const statuses: number[] = [];
    const texts: string[] = [];
    for (const text of asked) {
      const answer = await gateway.post(
        '/v1/chat/completions',
        { model, messages: user(text) },
        { headers: { 'x-gateway-user-path': path } },
      );
      statuses.push(answer.status);
      texts.push(await answer.text());
      await eventsOfExchange(gateway, exchangeOf(answer));
    }
    expect(statuses).toEqual([400, 200, 200]);
    expect(texts[1]).toContain('pear bush');
    // The answers as clients got them: nothing is left to change. The blocked request is evaluated again.
    const after = await replayed(draft(path, steps, [], { from }));
    expect(after.result).toMatchObject({
      requests: 3,
      verdicts: { blocked: 1, changed: 0, passed: 2 },
      not_evaluated: {},
    });
  });

  it('evaluates embeddings by their prompt alone', async () => {
    await ask('/embedded', '/v1/embeddings', { model: 'llamacpp/simulated-embed', input: 'a cherry' });
    const steps = [
      { ref: 'no-cherry', phase: 'prompt' },
      { ref: 'no-cherry', phase: 'response' },
    ];
    const run = await replayed(draft('/embedded', steps, [words('no-cherry', 'cherry', 'warn')]));
    expect(run.result).toMatchObject({ verdicts: { warned: 1 }, answers_not_evaluated: {} });
  });

  it('uses guardrails in force, and those of the draft in place of them', async () => {
    await ask('/names', '/v1/chat/completions', { messages: user('a cherry') });
    await admin.change('PUT', '/admin/guardrails', words('shared', 'cherry', 'block'));
    const steps = [{ ref: 'shared' }];
    expect((await replayed(draft('/names', steps))).result.verdicts).toMatchObject({ blocked: 1 });
    const other = [words('shared', 'cherry => apple')];
    expect((await replayed(draft('/names', steps, other))).result.verdicts).toMatchObject({ blocked: 0, changed: 1 });
    expect(await admin.get('/admin/guardrails/shared')).toMatchObject({ config: { on_match: 'block' } });
  });

  it('counts requests that cannot be evaluated by their reason', async () => {
    await admin.change('POST', '/admin/workflows', {
      ...{ scope_user_path: '/lacking', name: 'without bodies' },
      workflow_payload: { features: { ...features, audit: false, guardrails: false } },
    });
    await ask('/lacking', '/v1/chat/completions', { messages: user('a cherry') });
    const speech = await gateway.post(
      '/v1/audio/speech',
      { model, input: 'a cherry', voice: 'alloy' },
      { headers: { 'x-gateway-user-path': '/lacking' } },
    );
    await speech.arrayBuffer();
    await eventsOfExchange(gateway, exchangeOf(speech));
    const run = await replayed(draft('/lacking', [{ ref: 'w' }], [words('w', 'cherry', 'block')]));
    expect(run.result).toMatchObject({ requests: 2, not_evaluated: { body_not_recorded: 1, endpoint_not_read: 1 } });
    expect(run.result.examples).toEqual([]);
  });

  it('counts a request with its earlier turns', async () => {
    const first = await gateway.post(
      '/v1/responses',
      { model, input: 'a cherry' },
      { headers: { 'x-gateway-user-path': '/turns' } },
    );
    const { id } = await json(first);
    await eventsOfExchange(gateway, exchangeOf(first));
    const next = await ask('/turns', '/v1/responses', { input: 'And then?', previous_response_id: id });
    const run = await replayed(draft('/turns', [{ ref: 'w' }], [words('w', 'cherry', 'block')]));
    expect(run.result).toMatchObject({ verdicts: { blocked: 2 }, without_earlier_turns: 0 });
    expect(run.result.examples.map((one: Answered) => one.exchange_id)).toEqual([exchangeOf(first), next]);
  });

  it('compares its verdicts with what guardrails did when the requests were recorded', async () => {
    const save = (on_match: string) => admin.change('PUT', '/admin/guardrails', words('in-force', 'quince', on_match));
    await save('block');
    await admin.change('POST', '/admin/workflows', {
      ...{ scope_user_path: '/compared', name: 'compared' },
      workflow_payload: { features, steps: [{ ref: 'in-force' }] },
    });
    const headers = { 'x-gateway-user-path': '/compared' };
    const body = { model, messages: user('a quince') };
    const refused = await gateway.post('/v1/chat/completions', body, { headers });
    expect(refused.status).not.toBe(200);
    await eventsOfExchange(gateway, exchangeOf(refused));
    await save('warn');
    await ask('/compared', '/v1/chat/completions', { messages: user('a quince') });
    const run = await replayed(draft('/compared', [{ ref: 'w' }], [words('w', 'quince => pear')]));
    expect(run.result.recorded_verdicts).toEqual({ changed: { blocked: 1, warned: 1 } });
    expect(run.result.examples.map((one: Answered) => one.recorded)).toEqual([
      { verdict: 'blocked', status: refused.status },
      { verdict: 'warned', status: 200 },
    ]);
  });

  it('leaves out requests of a more specific workflow, of other paths and of other times', async () => {
    const own = await ask('/wide', '/v1/chat/completions', { messages: user('a cherry') });
    await ask('/wide/deep', '/v1/chat/completions', { messages: user('a cherry') });
    await ask('/wideness', '/v1/chat/completions', { messages: user('a cherry') });
    await admin.change('POST', '/admin/workflows', {
      ...{ scope_user_path: '/wide/deep', name: 'deep' },
      workflow_payload: { features: { ...features, guardrails: false } },
    });
    const one = [{ ref: 'w' }];
    const guardrails = [words('w', 'cherry', 'block')];
    const run = await replayed(draft('/wide', one, guardrails, { user_path: '/wide' }));
    expect(run.result).toMatchObject({ requests: 1, other_workflow: 1, examples: [{ exchange_id: own }] });
    expect(run.result.recorded_verdicts).toEqual({ blocked: { passed: 1 } });
    const early = await replayed(draft('/wide', one, guardrails, { to: '2020-01-02' }));
    expect(early.result).toMatchObject({ requests: 0, other_workflow: 0 });
    const ofModel = draft('/wide', one, guardrails);
    const scoped = { ...ofModel.workflow, scope_provider_name: 'llamacpp', scope_model: 'simulated-large' };
    expect((await replayed({ ...ofModel, workflow: scoped })).result).toMatchObject({ requests: 0 });
  });

  it('reads at most as many requests as it may, and returns where to continue', async () => {
    for (const n of [1, 2, 3]) await ask('/many', '/v1/chat/completions', { messages: user(`cherry ${n}`) });
    const guardrails = [words('w', 'cherry', 'block')];
    const body = draft('/many', [{ ref: 'w' }], guardrails, { user_path: '/many', max_requests: 2 });
    const run = await replayed(body);
    expect(run.result).toMatchObject({ requests: 2, truncated_at: expect.any(String) });
    const rest = await replayed({ ...body, from: run.result.truncated_at });
    expect(rest.result.requests).toBe(1);
    expect(rest.result.truncated_at).toBeUndefined();
  });

  it('contains no text of a request, an answer or a placeholder', async () => {
    const path = '/secretive';
    await ask(path, '/v1/chat/completions', { messages: user(reply('jane.roe@example.com told kumquat')) });
    const guardrails = [{ name: 'mail', type: 'pii', config: { restore: true } }, words('fruit', 'kumquat', 'warn')];
    const steps = [
      { ref: 'mail', phase: 'prompt' },
      { ref: 'mail', phase: 'response', step: 1 },
      { ref: 'fruit', phase: 'prompt', step: 2 },
    ];
    const answer = await start(draft(path, steps, guardrails));
    const run = await ended(await json(answer));
    expect(run.result).toMatchObject({ verdicts: { warned: 1 }, guardrails: [{ findings: { EMAIL: 1 } }, {}, {}] });
    const events = await recordedEvents(run.id);
    const [started, finished] = events;
    expect(started).toMatchObject({
      type: 'guardrail_replay.started',
      data: { id: run.id, scope: { userPath: path } },
    });
    expect(finished).toMatchObject({ type: 'guardrail_replay.finished', data: { outcome: 'completed' } });
    for (const text of [JSON.stringify(run), JSON.stringify(finished)]) {
      expect(text).not.toMatch(/jane|example\.com|<EMAIL|Reply with/);
    }
  });

  it.each([
    ['an unknown guardrail', draft('/x', [{ ref: 'missing' }]), 'workflow.workflow_payload.steps', /missing/],
    [
      'a guardrail whose configuration is invalid',
      draft('/x', [{ ref: 'w' }], [{ name: 'w', type: 'string_replace', config: {} }]),
      'guardrails.0.config.rules',
      /rules/,
    ],
    ['an unknown type', draft('/x', [{ ref: 'w' }], [{ name: 'w', type: 'other' }]), 'guardrails.0.type', /other/],
    [
      'a phase that its type does not have',
      draft('/x', [{ ref: 'w', phase: 'stream' }], [{ name: 'w', type: 'tag_replace' }]),
      'workflow.workflow_payload.steps',
      /stream/,
    ],
    [
      'an unknown phase',
      draft('/x', [{ ref: 'w', phase: 'late' }], [words('w', 'a => b')]),
      'workflow.workflow_payload.steps.0.phase',
      /phase/,
    ],
    [
      'two guardrails of one name',
      draft('/x', [{ ref: 'w' }], [words('w', 'a => b'), words('w', 'a => c')]),
      'guardrails.1',
      /twice/,
    ],
    ['a draft without guardrails', draft('/x', []), 'workflow.workflow_payload.steps', /no guardrails/],
    [
      'guardrails that are off',
      {
        ...draft('/x', []),
        workflow: { workflow_payload: { features: { ...features, guardrails: false }, steps: [{ ref: 'w' }] } },
      },
      'workflow.workflow_payload.features.guardrails',
      /off/,
    ],
    [
      'an unknown provider',
      { ...draft('/x', [{ ref: 'w' }]), workflow: { scope_provider_name: 'nowhere', workflow_payload: { features } } },
      'workflow.scope_provider_name',
      /nowhere/,
    ],
    [
      'a range that ends before it begins',
      draft('/x', [{ ref: 'w' }], [words('w', 'a => b')], { to: '2019-01-01' }),
      'from',
      /before/,
    ],
    ['a time that is none', draft('/x', [{ ref: 'w' }], [words('w', 'a => b')], { to: 'soon' }), 'to', /date/],
    ['a sample that is too large', draft('/x', [{ ref: 'w' }], [words('w', 'a => b')], { sample: 501 }), 'sample', /./],
  ])('refuses %s', async (_what, body, param, message) => {
    const error = await errorOf(await start(body), 400);
    expect(error).toMatchObject({ param, code: expect.any(String), message: expect.stringMatching(message) });
  });
});

/** The recorded events of a run. */
async function recordedEvents(id: string) {
  return eventsUntil(gateway, `stream=replay-${id}`, ({ type }) => type === 'guardrail_replay.finished');
}

describe('a sample', () => {
  const judge = { name: 'judge', type: 'llm_judge', config: { model, max_tokens: 10 } };
  const judged = (path: string, more: object = {}) => draft(path, [{ ref: 'judge' }], [judge], { sample: 5, ...more });

  it('calls the model at the path of the run, and has the cost of these calls', async () => {
    const selector = 'llamacpp/simulated-small';
    const pricing = { input_per_mtok: 1_000, output_per_mtok: 1_000 };
    await admin.change('PUT', '/admin/model-pricing-overrides', { selector, pricing });
    for (const n of [1, 2, 3]) await ask('/judged', '/v1/chat/completions', { messages: user(`question ${n}`) });
    const { id, result } = await replayed(judged('/judged', { max_cost: 10 }));
    expect(result.sample).toMatchObject({ state: 'evaluated', evaluated: 3, calls: 3 });
    expect(result.sample.estimated_cost).toBeGreaterThan(0);
    const calls = await eventsUntil(gateway, 'types=usage.recorded', ({ userPath }) => userPath?.includes(id) === true);
    const { data, userPath } = calls.at(-1) ?? {};
    expect(userPath).toBe(`/guardrail-replays/${id}/guardrails/judge`);
    expect(result.sample.cost).toBeGreaterThanOrEqual(Number(data.totalCost) / 1e9);
    // The calls of guardrails are no requests of a draft.
    const everything = draft('/', [{ ref: 'w' }], [words('w', 'question', 'block')], {
      user_path: '/guardrail-replays',
    });
    expect((await replayed(everything)).result).toMatchObject({ requests: 0, other_workflow: 0 });
  });

  it('is cancelled while a model does not answer', async () => {
    await ask('/cancelled', '/v1/chat/completions', { messages: user('a question') });
    gateway.simulated.control.always({ hang: true });
    const called = gateway.simulated.nextRequest();
    const { id, links } = await json(await start(judged('/cancelled')));
    await called;
    expect(await admin.get(links.self)).toMatchObject({ status: 'running', progress: { stage: 'running' } });
    expect(await errorOf(await start(judged('/cancelled')), 409)).toMatchObject({ code: 'replay_running' });
    const [first] = await admin.get('/admin/guardrails/replay');
    expect(first).toMatchObject({ id, status: 'running' });
    expect(await admin.change('DELETE', links.self)).toMatchObject({
      id,
      status: 'cancelled',
      result: { requests: 0 },
    });
    expect(await admin.get(links.self)).toMatchObject({ status: 'cancelled' });
  });
});

describe('GET /admin/guardrails/replay', () => {
  it('lists the runs, the newest first', async () => {
    const one = await replayed(draft('/listed', [{ ref: 'w' }], [words('w', 'a => b')]));
    const other = await replayed(draft('/listed', [{ ref: 'w' }], [words('w', 'a => b')]));
    const [first, second] = await admin.get('/admin/guardrails/replay');
    expect(first).toEqual({
      ...{ id: other.id, status: 'completed', started_at: other.started_at, started_by: 'master' },
      links: { self: `/admin/guardrails/replay/${other.id}` },
    });
    expect(second.id).toBe(one.id);
  });

  it('returns 404 for an unknown run, also to cancel', async () => {
    await errorOf(await gateway.fetch('/admin/guardrails/replay/unknown'), 404);
    await errorOf(await gateway.fetch('/admin/guardrails/replay/unknown', { method: 'DELETE' }), 404);
  });
});

describe('GET /admin/guardrails/replay/{id} after a restart', () => {
  it('returns the recorded result', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-replay-'));
    try {
      const env = { GUARDRAILS_ENABLED: 'true' };
      const before = await startTestGateway({ dataDir, env });
      const body = draft('/restarted', [{ ref: 'w' }], [words('w', 'a => b')]);
      const { id } = await json(await before.fetch('/admin/guardrails/replay', { json: body }));
      // A run over no requests has ended when it is cancelled, or is cancelled.
      const ended = await json(await before.fetch(`/admin/guardrails/replay/${id}`, { method: 'DELETE' }));
      await before.close();
      const after = await startTestGateway({ dataDir, env });
      expect(await json(await after.fetch(`/admin/guardrails/replay/${id}`))).toEqual(ended);
      expect(await json(await after.fetch('/admin/guardrails/replay'))).toMatchObject([{ id, status: ended.status }]);
      await after.close();
    } finally {
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});

describe('/admin/guardrails/replay while plugins are off', () => {
  const off = withGateway();

  it.each(['GET', 'POST'])('answers 503 to %s', async (method) => {
    const answer = await off.fetch('/admin/guardrails/replay', { method });
    expect(await errorOf(answer, 503)).toMatchObject({ code: 'feature_unavailable' });
  });
});
