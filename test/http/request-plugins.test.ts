/** Plugins that read requests before they are routed, and exchanges after they ended. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordedEvent } from '../../src/events/event.ts';
import { eventsIn } from '../e2e/recorded-events.ts';
import { pluginFolder, source } from '../plugins/plugin-files.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { errorOf, json, user } from '../support/with-gateway.ts';

const teams = source(
  `request({ headers, model, labels }, { userPath, config }) {
     const wanted = headers['x-test'];
     if (headers.authorization?.includes('test-master-key')) throw new Error('it sees a credential');
     if (wanted === 'refuse') return { refuse: { status: 451, code: 'not_here', message: 'Not here.' } };
     if (wanted === 'throw') throw new Error('no');
     if (wanted === 'exit') process.exit(1);
     if (wanted === 'credential') return { headers: { set: { Authorization: 'Bearer other' } } };
     if (wanted === 'key') return { headers: { set: { 'idempotency-key': 'x' } } };
     if (wanted === 'label') return { labels: ['a,b'] };
     if (wanted === 'unknown') return { userPath: '/other' };
     if (wanted === 'nothing') return {};
     if (wanted === 'model') return { model: config.model };
     if (wanted === 'hidden') return { model: 'no-such-model' };
     return { labels: ['team-' + userPath.split('/')[1], 'team-a'], headers: { set: { 'X-Team': 'one' }, remove: ['x-drop'] } };
   }`,
  { name: 'teams', facts: 'config: z.object({ model: z.string() }),' },
);

const second = source(
  "request: ({ labels, headers }) => labels.length > 0 ? ({ headers: { set: { 'x-seen': labels.join('+') + (headers['x-team'] ?? '') } } }) : undefined",
  { name: 'second' },
);

const counting = source(
  `complete(facts) { console.log('ended ' + JSON.stringify(facts)); seen.push(facts); },
   async request(request, { models }) {
     if (request.headers['x-test'] === 'seen') return { headers: { set: { 'x-seen': JSON.stringify(seen) } } };
     if (request.headers['x-test'] === 'judge') {
       await models.chat({ model: 'simulated-small', messages: [{ role: 'user', content: 'fine' }], maxTokens: 5 });
       return { labels: ['judged'] };
     }
   }`,
  { name: 'counting', head: 'const seen = [];' },
);

const { folder, remove } = pluginFolder({ 'teams.ts': teams, 'second.ts': second, 'counting.ts': counting });
const dataDir = mkdtempSync(join(tmpdir(), 'chancery-plugins-data-'));
let gateway: TestGateway;

beforeAll(async () => {
  gateway = await startTestGateway({
    dataDir,
    register: (url) => ({ LLAMACPP_BASE_URL: url, LLAMACPP_TWO_BASE_URL: url }),
    env: {
      PLUGINS_ENABLED: 'true',
      PLUGINS: JSON.stringify([
        { path: join(folder, 'teams.ts'), config: { model: 'llamacpp-two/simulated-small' } },
        { path: join(folder, 'second.ts') },
        { path: join(folder, 'counting.ts'), fail_mode: 'open' },
      ]),
    },
  });
});

afterAll(async () => {
  await gateway.close();
  rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  remove();
});

function chat(wanted: string, headers: Record<string, string> = {}): Promise<Response> {
  return gateway.fetch('/v1/chat/completions', {
    json: { model: 'llamacpp/simulated-small', messages: user('hi') },
    headers: { 'x-gateway-user-path': '/a', 'x-test': wanted, ...headers },
  });
}

async function recordOf(answer: Response): Promise<RecordedEvent[]> {
  const stream = `exchange-${answer.headers.get('x-exchange-id')}`;
  return (await eventsIn(dataDir)).filter((event) => event.stream === stream);
}

function dataOf(events: readonly RecordedEvent[], type: string): unknown[] {
  return events.filter((event) => event.type === type).map(({ data }) => data);
}

describe('the hook request', () => {
  it('adds labels and changes headers, which the record explains', async () => {
    const answer = await chat('', { 'x-drop': 'this' });
    expect(answer.status).toBe(200);
    const events = await recordOf(answer);
    expect(events.slice(0, 3).map(({ type }) => type)).toEqual([
      'request.received',
      'plugin.applied',
      'plugin.applied',
    ]);
    const [received] = dataOf(events, 'request.received');
    expect(received).toMatchObject({ labels: ['team-a'], headers: { 'x-drop': 'this' } });
    expect(received).not.toHaveProperty('headers.x-team');
    expect(dataOf(events, 'plugin.applied')).toMatchObject([
      { plugin: 'teams', labels: ['team-a'], headersSet: { 'x-team': 'one' }, headersRemoved: ['x-drop'] },
      { plugin: 'second', headersSet: { 'x-seen': 'team-aone' }, digest: expect.stringMatching(/^[0-9a-f]{64}$/) },
    ]);
    expect(dataOf(events, 'usage.recorded')).toMatchObject([{ labels: ['team-a'] }]);
    const sent = gateway.simulated.requests.at(-1);
    expect(sent?.headers).not.toHaveProperty('x-drop');
  });

  it('records nothing when it changes nothing', async () => {
    const events = await recordOf(await chat('nothing'));
    expect(dataOf(events, 'plugin.applied')).toEqual([]);
    expect(dataOf(events, 'exchange.completed')).toHaveLength(1);
  });

  it('selects another model, as far as the caller may use it', async () => {
    const events = await recordOf(await chat('model'));
    expect(dataOf(events, 'request.received')).toMatchObject([{ model: 'llamacpp/simulated-small' }]);
    expect(dataOf(events, 'plugin.applied')).toMatchObject([{ model: 'llamacpp-two/simulated-small' }]);
    expect(dataOf(events, 'model.resolved')).toMatchObject([{ provider: 'llamacpp-two', model: 'simulated-small' }]);
    expect((await chat('hidden')).status).toBe(404);
  });

  it('refuses requests with a status, a code and a message', async () => {
    const answer = await chat('refuse');
    expect(await errorOf(answer.clone(), 451)).toMatchObject({ code: 'not_here', message: 'Not here.' });
    const events = await recordOf(answer);
    expect(dataOf(events, 'plugin.applied')).toMatchObject([{ refused: { status: 451, code: 'not_here' } }]);
    expect(dataOf(events, 'attempt.started')).toEqual([]);
  });

  it.each([['throw'], ['credential'], ['key'], ['label'], ['unknown'], ['exit']])(
    'fails closed when its result is wrong: %s',
    async (wanted) => {
      const answer = await chat(wanted);
      expect(await errorOf(answer.clone(), 500)).toMatchObject({ code: 'plugin_failure' });
      const events = await recordOf(answer);
      expect(dataOf(events, 'plugin.applied')).toMatchObject([{ plugin: 'teams', failMode: 'closed' }]);
      expect(dataOf(events, 'attempt.started')).toEqual([]);
    },
  );

  it('runs again after its process ended, and not for its own calls of models', async () => {
    await expect.poll(async () => (await chat('nothing')).status, { timeout: 10_000 }).toBe(200);
    const answer = await chat('judge');
    expect(answer.status).toBe(200);
    const [own] = (await eventsIn(dataDir)).filter(({ context }) => context.userPath === '/a/guardrails/counting');
    expect(own?.data).toMatchObject({ origin: 'plugin' });
    const ofOwn = (await eventsIn(dataDir)).filter(({ stream }) => stream === own?.stream);
    expect(dataOf(ofOwn, 'plugin.applied')).toEqual([]);
    expect(dataOf(ofOwn, 'exchange.completed')).toHaveLength(1);
  });
});

describe('the hook complete', () => {
  it('gets the facts of an exchange after its end', async () => {
    const answer = await chat('');
    const exchangeId = answer.headers.get('x-exchange-id');
    const seen = async (): Promise<unknown> => {
      const events = await recordOf(await chat('seen'));
      const [applied] = dataOf(events, 'plugin.applied').filter((data) => JSON.stringify(data).includes('"counting"'));
      const text: unknown = Reflect.get(Reflect.get(Object(applied), 'headersSet') ?? {}, 'x-seen');
      const all: { exchangeId: string }[] = typeof text === 'string' ? JSON.parse(text) : [];
      return all.find((one) => one.exchangeId === exchangeId);
    };
    await expect.poll(seen).toMatchObject({
      ...{ userPath: '/a', endpoint: '/v1/chat/completions', provider: 'llamacpp', model: 'simulated-small' },
      ...{ status: 200, stream: false, labels: ['team-a'], inputTokens: expect.any(Number) },
      durationMs: expect.any(Number),
    });
  });

  it('is counted for the row of the plugin', async () => {
    const rows: { name: string; counters?: object }[] = await json(await gateway.fetch('/admin/plugins'));
    expect(rows.find(({ name }) => name === 'counting')).toMatchObject({
      kinds: expect.arrayContaining(['complete', 'request']),
      counters: { dropped: 0 },
    });
  });
});
