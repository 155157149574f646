/** Scope of the live logs: administrators of a subtree, and clients that reconnect late. */
import { describe, expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { errorOf, json, modelsListed, user, withGateway } from '../support/with-gateway.ts';
import { type LiveListener, listen } from './live-listener.ts';

const chat = (text: string) => ({ model: 'llamacpp/simulated-small', messages: user(text) });
const gateway = withGateway();

async function ask(userPath: string | undefined, requestId: string): Promise<void> {
  const headers: Record<string, string> = { 'x-request-id': requestId };
  if (userPath !== undefined) headers['x-gateway-user-path'] = userPath;
  const answer = await gateway.post('/v1/chat/completions', chat(requestId), { headers });
  await answer.arrayBuffer();
  expect(answer.status).toBe(200);
}

const requestsIn = (listener: LiveListener) => new Set(listener.news().map(({ data }) => data.request_id ?? 'none'));

describe('live logs for an administrator of a subtree', () => {
  it.each<Record<string, string>>([{}, { view: 'events' }, { view: 'rows' }])(
    'hold the exchanges of that subtree and nothing else: %o',
    async (view) => {
      const scoped = await newKey(gateway, { user_path: '/team', dashboard_access: true });
      const headers = { authorization: `Bearer ${scoped.value}` };
      const name = ['previews', 'events', 'rows'].indexOf(view['view'] ?? 'previews');
      const own = [`a${name}`, `b${name}`, `c${name}`];
      await ask('/team/a', own[0] ?? '');
      await ask('/rival', `rival${name}`);
      await ask('/teams', `teams${name}`);
      await ask(undefined, `none${name}`);
      // Other events of the subtree: a key that is created there.
      await newKey(gateway, { user_path: '/team/a', name: 'unseen' }, scoped);
      const live = await listen(gateway.url, view, headers);
      expect(live.response.statusCode).toBe(200);
      const replay = await listen(gateway.url, { ...view, cursor: '0' }, headers);
      await ask('/team', own[1] ?? '');
      await ask('/rival/x', `rival-x${name}`);
      await ask('/team/a/b', own[2] ?? '');
      const end = view['view'] === 'events' ? 'exchange.completed' : 'audit.completed';
      for (const listener of [live, replay]) await listener.until(end, own[2]);
      const seen = [...requestsIn(replay)].filter((id) => /\d$/.test(id) && id.endsWith(String(name)));
      expect(seen.sort()).toEqual([...own].sort());
      expect([...requestsIn(live)].sort()).toEqual(own.slice(1).sort());
      const others = [...live.events, ...replay.events].filter(
        ({ event, data }) => event !== 'heartbeat' && !/^[abc][012]$/.test(data.request_id ?? ''),
      );
      expect(others).toEqual([]);
      live.leave();
      replay.leave();
    },
  );

  it('accept a user path of the subtree, and refuse others', async () => {
    const scoped = await newKey(gateway, { user_path: '/team', dashboard_access: true });
    const outside = await scoped.fetch('/admin/live/logs?user_path=/rival');
    expect((await errorOf(outside, 403)).code).toBe('user_path_out_of_scope');
    const headers = { authorization: `Bearer ${scoped.value}` };
    const listener = await listen(gateway.url, { user_path: '/team/sub' }, headers);
    await ask('/team/elsewhere', 'elsewhere');
    await ask('/team/sub', 'sub');
    await listener.until('audit.completed', 'sub');
    expect([...requestsIn(listener)]).toEqual(['sub']);
    listener.leave();
  });
});

describe('DASHBOARD_LIVE_LOGS_REPLAY_LIMIT', () => {
  it('limits the events that a client receives on reconnecting; beyond it, the client receives a reset', async () => {
    const own = await startTestGateway({ env: { DASHBOARD_LIVE_LOGS_REPLAY_LIMIT: '6' } });
    await modelsListed(own);
    const authorization = { authorization: 'Bearer test-master-key' };
    const send = async (id: string) => {
      const answer = await own.fetch('/v1/chat/completions', { json: chat(id), headers: { 'x-request-id': id } });
      await answer.arrayBuffer();
    };
    const first = await listen(own.url, {}, authorization);
    await send('one');
    const { id = '' } = await first.until('audit.completed', 'one');
    await first.until('usage.completed', 'one');
    const lastSeen = first.lastId() ?? id;
    first.leave();
    await send('two');

    const near = await listen(own.url, { cursor: lastSeen }, authorization);
    await near.until('audit.completed', 'two');
    expect(near.events.some(({ event }) => event === 'reset')).toBe(false);
    near.leave();

    await send('three');
    const far = await listen(own.url, { cursor: lastSeen }, authorization);
    // What is recorded before it is part of what the reset stands for.
    await far.until('reset');
    await send('four');
    await far.until('audit.completed', 'four');
    expect(far.news()[0]?.event).toBe('reset');
    expect(far.news().some(({ data }) => data.request_id === 'two' || data.request_id === 'three')).toBe(false);
    far.leave();

    // The raw view is the log, which has no limit.
    const raw = await listen(own.url, { cursor: '0', view: 'events' }, authorization);
    await raw.until('exchange.completed', 'four');
    expect(raw.events.some(({ event, data }) => event === 'request.received' && data.request_id === 'one')).toBe(true);
    expect(raw.events.some(({ event }) => event === 'reset')).toBe(false);
    raw.leave();
    expect((await json(await own.fetch('/v1/models'))).object).toBe('list');
    await own.close();
  });
});
