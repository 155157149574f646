import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { json, readUntil, user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-past.ts';

const gateway = withGateway();
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';

/** Every read that is on record, oldest first. */
async function reads(): Promise<Answered[]> {
  const answer = await gateway.fetch('/admin/history?subject=audit:reads&limit=200');
  if (answer.status === 404) return [];
  return (await json(answer)).entries.map(({ actor, after }: Answered) => ({ actor, ...after })).reverse();
}

async function readsDuring(work: () => Promise<unknown>): Promise<Answered[]> {
  const before = (await reads()).length;
  await work();
  return (await reads()).slice(before);
}

const as = (value: string) => ({ headers: { authorization: `Bearer ${value}` } });

async function newResponse(value?: string): Promise<string> {
  const init = value === undefined ? {} : as(value);
  return (await json(await gateway.post('/v1/responses', { model, input: 'A secret' }, init))).id;
}

describe("an administrator's read of a response that somebody else made", () => {
  it('is on record, with who read what of whom', async () => {
    const { id: keyId, value } = await admin.newKey({ user_path: '/team' });
    const id = await newResponse(value);
    const told = await readsDuring(async () => {
      await admin.get(`/v1/responses/${id}`);
      await admin.get(`/v1/responses/${id}/input_items`);
      await (await gateway.fetch(`/v1/responses/${id}?stream=true`)).text();
    });
    const read = { actor: 'master', id, owner: `key:${keyId}`, owner_path: '/team' };
    expect(told).toEqual([
      { ...read, what: 'response' },
      { ...read, what: 'response_input_items' },
      { ...read, what: 'response_stream' },
    ]);
  });

  it('is on record of a key with dashboard access too', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const member = await admin.newKey({ user_path: '/team/member' });
    const id = await newResponse(member.value);
    const told = await readsDuring(() => admin.get(`/v1/responses/${id}`, boss.value));
    expect(told).toMatchObject([{ actor: `key:${boss.id}`, owner: `key:${member.id}`, id }]);
  });

  it('is not on record when it was refused', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const other = await admin.newKey({ user_path: '/other' });
    const id = await newResponse(other.value);
    expect(await readsDuring(() => admin.refused(`/v1/responses/${id}`, 404, boss.value))).toEqual([]);
  });
});

it('a read of what one has made oneself is none of an administrator', async () => {
  const { value } = await admin.newKey({ dashboard_access: true });
  const own = await newResponse(value);
  const masters = await newResponse();
  const told = await readsDuring(async () => {
    await admin.get(`/v1/responses/${own}`, value);
    await admin.get(`/v1/responses/${masters}`);
  });
  expect(told).toEqual([]);
});

it('a read by a plain key of the same user path is none of an administrator', async () => {
  const one = await admin.newKey({ user_path: '/shared' });
  const other = await admin.newKey({ user_path: '/shared' });
  const id = await newResponse(one.value);
  expect(await readsDuring(() => admin.get(`/v1/responses/${id}`, other.value))).toEqual([]);
});

it('the items of a conversation of others are on record when they are read', async () => {
  const { id: keyId, value } = await admin.newKey();
  const items = [{ type: 'message', role: 'user', content: 'A secret' }];
  const conversation = await json(await gateway.post('/v1/conversations', { items }, as(value)));
  const told = await readsDuring(async () => {
    const { data } = await admin.get(`/v1/conversations/${conversation.id}/items`);
    await admin.get(`/v1/conversations/${conversation.id}/items/${data[0].id}`);
    await admin.get(`/v1/conversations/${conversation.id}`);
    await admin.get(`/v1/conversations/${conversation.id}/items`, value);
  });
  const read = { actor: 'master', what: 'conversation_items', id: conversation.id, owner: `key:${keyId}` };
  expect(told).toEqual([read, read]);
});

it('every connection to the live tail is on record before it says anything, with how it was narrowed', async () => {
  await (await gateway.post('/v1/chat/completions', { model, messages: user('A secret') })).text();
  const stop = new AbortController();
  const told = await readsDuring(async () => {
    for (const query of ['view=events&cursor=0&user_path=/a&types=request.', 'heartbeat=1']) {
      const answer = await gateway.fetch(`/admin/live/logs?${query}`, { signal: stop.signal });
      await readUntil(answer, 'heartbeat');
    }
  });
  stop.abort();
  expect(told).toEqual([
    { actor: 'master', what: 'live_events', filter: { types: 'request.', user_path: '/a' } },
    { actor: 'master', what: 'live_previews' },
  ]);
});

it('a connection that is refused is not on record', async () => {
  expect(await readsDuring(() => admin.refused('/admin/live/logs?view=nothing', 400))).toEqual([]);
});
