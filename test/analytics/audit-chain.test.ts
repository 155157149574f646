/** The requests that belong together with one request, from the log and from analytics. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parsePosition } from '../../src/events/event.ts';
import type { EventLog } from '../../src/events/log.ts';
import { openLog } from '../../src/events/open-log.ts';
import { createBatchStore } from '../../src/projections/analytics/batch-store.ts';
import { type Projector, startProjector } from '../../src/projections/analytics/projector.ts';
import { administrator } from '../http/admin-history-steps.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { exchangeOf, json, modelsListed, user, withGateway } from '../support/with-gateway.ts';
import { type Embedded, hasChdb, startEmbedded } from './embedded.ts';

const model = 'llamacpp/simulated-small';
type Gateway = Pick<TestGateway, 'fetch'>;

const as = (key?: string): Record<string, string> => (key === undefined ? {} : { authorization: `Bearer ${key}` });

async function sent(gateway: Gateway, path: string, body: object, headers: Record<string, string> = {}) {
  const answer = await gateway.fetch(path, { json: { model, ...body }, headers });
  const answered = await json(answer);
  expect({ status: answer.status, answered }).toMatchObject({ status: 200 });
  return { id: exchangeOf(answer), response: String(answered.id) };
}

const respond = (gateway: Gateway, body: object, headers?: Record<string, string>) =>
  sent(gateway, '/v1/responses', { input: 'Hello!', ...body }, headers);

const edgesOf = (chain: Answered): string[] =>
  chain.edges.map(({ from, to, kind }: Answered) => `${from} ${to} ${kind}`).sort();
const idsOf = (chain: Answered): string[] => chain.nodes.map(({ id }: Answered) => id);

describe('while analytics is off', () => {
  const gateway = withGateway();
  const admin = administrator(gateway);
  const chainOf = (id: string, query = '', key?: string) => admin.get(`/admin/audit/chain?log_id=${id}${query}`, key);

  it('follows earlier responses, and returns their figures without content', async () => {
    const one = await respond(gateway, {});
    const two = await respond(gateway, { previous_response_id: one.response });
    const three = await respond(gateway, { previous_response_id: two.response });
    const chain = await chainOf(three.id);
    expect(chain).toMatchObject({ anchor_id: three.id, truncated: false });
    expect(idsOf(chain)).toEqual([one.id, two.id, three.id]);
    expect(edgesOf(chain)).toEqual(
      [`${one.id} ${two.id} previous_response`, `${two.id} ${three.id} previous_response`].sort(),
    );
    expect(chain.nodes[0]).toMatchObject({
      path: '/v1/responses',
      model: 'simulated-small',
      outcome: 'completed',
      status_code: 200,
      response_id: one.response,
    });
    expect(chain.nodes[0].total_tokens).toBeGreaterThan(0);
    expect(JSON.stringify(chain)).not.toContain('Hello!');
  });

  it('follows the turns of a conversation, in both directions', async () => {
    const { id: conversation } = await json(await gateway.post('/v1/conversations', {}));
    const turns = [];
    for (let turn = 0; turn < 3; turn++) turns.push(await respond(gateway, { conversation }));
    const [one, two, three] = turns.map(({ id }) => id);
    const chain = await chainOf(String(two));
    expect(idsOf(chain)).toEqual([one, two, three]);
    expect(edgesOf(chain)).toEqual([`${one} ${two} conversation`, `${two} ${three} conversation`].sort());
  });

  it('is limited, and says so', async () => {
    const one = await respond(gateway, {});
    const two = await respond(gateway, { previous_response_id: one.response });
    const chain = await chainOf(two.id, '&limit=1');
    expect(chain).toMatchObject({ edges: [], truncated: true });
    expect(idsOf(chain)).toEqual([two.id]);
    expect(await admin.refused(`/admin/audit/chain?log_id=${two.id}&limit=501`, 400)).toMatchObject({ param: 'limit' });
    expect(await admin.refused('/admin/audit/chain', 400)).toMatchObject({ param: 'log_id' });
  });

  it('shows only requests in the scope', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const member = await admin.newKey({ user_path: '/team/member' });
    const one = await respond(gateway, {});
    const two = await respond(gateway, {}, as(member.value));
    await admin.refused(`/admin/audit/chain?log_id=${one.id}`, 404, boss.value);
    expect(idsOf(await chainOf(two.id, '', boss.value))).toEqual([two.id]);
  });
});

describe('without kept requests', () => {
  const gateway = withGateway({ env: { LOGGING_ENABLED: 'false' } });

  it('is 503', async () => {
    const error = await administrator(gateway).refused('/admin/audit/chain?log_id=one', 503);
    expect(error).toMatchObject({ code: 'feature_unavailable' });
  });
});

describe.skipIf(!hasChdb)('with analytics', { timeout: 60_000 }, () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-chain-'));
  let embedded: Embedded;
  let gateway: TestGateway;
  let log: EventLog;
  let projector: Projector;

  beforeAll(async () => {
    embedded = await startEmbedded();
    gateway = await startTestGateway({
      dataDir,
      env: { RESPONSE_CACHE_ENABLED: 'true' },
      analytics: {
        address: () => ({ url: embedded.url, username: 'gateway', password: 'asks', database: 'chancery' }),
        status: () => ({ health: 'ok', lagEvents: 0 }),
      },
    });
    await modelsListed(gateway);
    log = await openLog(`file:${join(dataDir, 'log')}`, { readOnly: true });
    const store = createBatchStore(embedded.clientOf('projector'), 'chancery');
    projector = startProjector({ log, store, retention: { audit: 0, usage: 0 }, liveMs: 1, retryMs: 10 });
  }, 60_000);
  afterAll(async () => {
    await projector?.close();
    await log?.close();
    await gateway?.close();
    await embedded?.close();
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  });

  async function chainOf(id: string, key?: string): Promise<Answered> {
    await projector.whenStored(parsePosition(await log.head()));
    return administrator(gateway).get(`/admin/audit/chain?log_id=${id}`, key);
  }

  it('follows later responses too, also where two continue the same one', async () => {
    const one = await respond(gateway, {});
    const two = await respond(gateway, { previous_response_id: one.response });
    const other = await respond(gateway, { previous_response_id: one.response, input: 'Good evening!' });
    const three = await respond(gateway, { previous_response_id: two.response });
    const wanted = [
      `${one.id} ${two.id} previous_response`,
      `${one.id} ${other.id} previous_response`,
      `${two.id} ${three.id} previous_response`,
    ].sort();
    const chain = await chainOf(one.id);
    expect(edgesOf(chain)).toEqual(wanted);
    expect(chain.nodes.map(({ total_tokens }: Answered) => total_tokens > 0)).toEqual([true, true, true, true]);
  });

  it('has the session in the order of its requests, of one user path only', async () => {
    const admin = administrator(gateway);
    const { value } = await admin.newKey({ user_path: '/team' });
    const headers = { 'x-session-id': 'talk' };
    const chat = (words: string, key?: string) =>
      sent(gateway, '/v1/chat/completions', { messages: user(words) }, { ...headers, ...as(key) });
    const one = await chat('One');
    const two = await chat('Two');
    const three = await chat('Three');
    await chat('Elsewhere', value);
    const chain = await chainOf(two.id);
    expect(idsOf(chain)).toEqual([one.id, two.id, three.id]);
    expect(edgesOf(chain)).toEqual([`${one.id} ${two.id} session`, `${two.id} ${three.id} session`].sort());
  });

  it('names the exchange whose recorded answer was returned', async () => {
    const headers = { 'idempotency-key': 'once' };
    const body = { messages: user('Only once') };
    const one = await sent(gateway, '/v1/chat/completions', body, headers);
    const two = await sent(gateway, '/v1/chat/completions', body, headers);
    const chain = await chainOf(two.id);
    expect(edgesOf(chain)).toContain(`${one.id} ${two.id} replayed_from`);
  });
});
