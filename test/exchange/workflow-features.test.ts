/** What a workflow changes about a request, from the route of a client to the record. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scopeKey, workflowStream } from '../../src/commands/workflows/workflow.ts';
import { budgetSet, priceOverrideSet } from '../../src/events/catalogue/budget.ts';
import { virtualModelSaved } from '../../src/events/catalogue/workflow.ts';
import { type NewEvent, type RecordedEvent, streamName } from '../../src/events/event.ts';
import type { StreamWrite } from '../../src/events/log.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { user } from '../support/with-gateway.ts';
import { inLog, type LoggedWorkflow, workflowWrite } from '../workflows/in-log.ts';
import { admin } from '../workflows/made.ts';

const MODEL = 'llamacpp-one/simulated-small';
const SECRET_WORD = 'unusual-word-in-the-prompt';

let dataDir = '';
let gateway: TestGateway;

/** Changes that administrators made before the gateway starts. */
async function writeHistory(): Promise<void> {
  const workflows: readonly LoggedWorkflow[] = [
    { id: 'unaudited', userPath: '/unaudited', features: { audit: false } },
    { id: 'unused', userPath: '/unused', features: { usage: false } },
    { id: 'free', userPath: '/free', features: { budget: false } },
    { id: 'single', userPath: '/single', features: { failover: false } },
    { id: 'broken', userPath: '/broken', refs: ['missing'] },
  ];
  const budgets = ['/free', '/plain', '/unused'].map((subject) => {
    const of = { scope: 'user_path' as const, subject, periodSeconds: 86_400 };
    return write('budget', subject, budgetSet.create({ ...of, amount: '1', source: 'manual' }, admin));
  });
  const price = priceOverrideSet.create({ selector: MODEL, pricing: { per_request: 1 } }, admin);
  const targets = ['llamacpp-one', 'llamacpp-two'].map((provider) => ({ provider, model: 'simulated-small' }));
  const both = { source: 'both', targets, strategy: 'failover' as const, sessionAffinity: false };
  const redirect = virtualModelSaved.create(
    { ...both, failover: { enabled: true }, userPaths: [], enabled: true },
    admin,
  );
  const writes = [...budgets, write('price', MODEL, price), write('virtual-model', 'both', redirect)];
  await inLog(dataDir, (log) => log.append([...workflows.map(workflowWrite), ...writes]));
}

function write(category: string, id: string, event: NewEvent): StreamWrite {
  return { stream: streamName(category, id), events: [event], expectedRevision: 'any' };
}

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'chancery-workflows-'));
  await writeHistory();
  gateway = await startTestGateway({
    dataDir,
    register: (url) => ({ LLAMACPP_ONE_BASE_URL: url, LLAMACPP_TWO_BASE_URL: url }),
    env: { GUARDRAILS_ENABLED: 'true', RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' },
  });
});

afterAll(async () => {
  await gateway.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
});

async function ask(userPath: string, model = MODEL) {
  const answer = await gateway.fetch('/v1/chat/completions', {
    json: { model, messages: user(SECRET_WORD) },
    headers: { 'x-gateway-user-path': userPath },
  });
  const body: unknown = await answer.json();
  const stream = `exchange-${answer.headers.get('x-exchange-id')}`;
  const events = (await eventsIn(dataDir)).filter((event) => event.stream === stream);
  return { status: answer.status, body, events };
}

function dataOf(events: readonly RecordedEvent[], type: string): Record<string, unknown> | undefined {
  return events.find((event) => event.type === type)?.data as Record<string, unknown> | undefined;
}

const bodiesOf = (events: readonly RecordedEvent[]) =>
  events.map(({ body }) => Buffer.from(body ?? new Uint8Array()).toString()).join('');

describe('a request', () => {
  it('is recorded with its workflow: the default one when no other is for it', async () => {
    const { status, events } = await ask('/somebody');
    expect(status).toBe(200);
    expect(dataOf(events, 'request.received')).toMatchObject({
      capture: 'full',
      workflow: { version: 1, scope: 'global', off: ['guardrails'] },
    });
    expect(bodiesOf(events)).toContain(SECRET_WORD);
    const stored = (await eventsIn(dataDir)).find(({ stream }) => stream === workflowStream({}));
    expect(stored).toMatchObject({ type: 'workflow.created', context: { actor: 'system' } });
    const { workflow } = dataOf(events, 'request.received') as { workflow: { id: string } };
    expect(stored?.data).toMatchObject({ id: workflow.id, managedDefault: true, name: 'default-global' });
  });

  it('without audit is recorded without bodies, and with the workflow that turned it off', async () => {
    const { status, events } = await ask('/unaudited/team');
    expect(status).toBe(200);
    expect(dataOf(events, 'request.received')).toMatchObject({
      capture: 'metadata',
      workflow: { id: 'unaudited', version: 1, scope: scopeKey({ userPath: '/unaudited' }), off: ['audit'] },
    });
    expect(bodiesOf(events)).toBe('');
    expect(events.map(({ type }) => type)).toContain('usage.recorded');
  });

  it('without usage is answered, and nothing is counted or checked against a budget', async () => {
    for (let round = 0; round < 3; round++) {
      const { status, events } = await ask('/unused');
      expect(status).toBe(200);
      const types = events.map(({ type }) => type);
      expect(types).toContain('exchange.completed');
      expect(types).not.toContain('usage.recorded');
    }
  });

  it('without budgets is not refused by one, and its usage is recorded; others are refused', async () => {
    for (let round = 0; round < 3; round++) {
      const { status, events } = await ask('/free');
      expect(status).toBe(200);
      expect(dataOf(events, 'usage.recorded')).toMatchObject({ totalCost: '1000000000' });
    }
    expect(await ask('/plain')).toMatchObject({ status: 429, body: { error: { code: 'budget_exceeded' } } });
  });

  it('without failover calls the first target alone', async () => {
    const attempts = (events: readonly RecordedEvent[]) =>
      events.filter(({ type }) => type === 'attempt.started').length;
    gateway.simulated.control.next({ status: 500 });
    const elsewhere = await ask('/somebody', 'both');
    expect([elsewhere.status, attempts(elsewhere.events)]).toEqual([200, 2]);
    gateway.simulated.control.next({ status: 500 });
    const alone = await ask('/single', 'both');
    expect(attempts(alone.events)).toBe(1);
    expect(alone.status).toBeGreaterThanOrEqual(500);
    gateway.simulated.control.clear();
  });

  it('whose guardrails cannot run is refused before a provider is called, and on record with its workflow', async () => {
    const before = gateway.simulated.requests.length;
    const { status, body, events } = await ask('/broken');
    expect(status).toBe(500);
    expect(body).toMatchObject({
      error: { type: 'internal_error', code: 'plugin_failure', message: expect.stringContaining("'missing'") },
    });
    expect(gateway.simulated.requests.length).toBe(before);
    expect(dataOf(events, 'request.received')).toMatchObject({ workflow: { id: 'broken' } });
    expect(dataOf(events, 'request.refused')).toMatchObject({ code: 'plugin_failure' });
    const shown: unknown = await (await gateway.fetch('/admin/workflows/broken')).json();
    expect(shown).toMatchObject({ active: true, compile_error: expect.stringContaining("'missing'") });
    const explained = await gateway.fetch('/admin/explain?model=both&user_path=/broken');
    expect(await explained.json()).toMatchObject({
      workflow: { matching: { id: 'broken', compile_error: expect.stringContaining("'missing'") } },
    });
  });
});
