import { describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { line } from '../support/batches.ts';
import type { TestGateway } from '../support/gateway.ts';
import { newKey } from '../support/managed-keys.ts';
import { json, readUntil, user, withGateway } from '../support/with-gateway.ts';
import { administrator } from './admin-history-steps.ts';

const gateway = withGateway();
/** Its provider stores files. */
const withFiles = withGateway({
  register: (url) => ({ OPENAI_BASE_URL: url, OPENAI_API_KEY: 'sk-files' }),
});
const admin = administrator(gateway);
const model = 'llamacpp/simulated-small';

/** Every recorded read, oldest first. */
async function reads(of: Pick<TestGateway, 'fetch'>): Promise<Answered[]> {
  const answer = await of.fetch('/admin/history?subject=audit:reads&limit=200');
  if (answer.status === 404) return [];
  return (await json(answer)).entries.map(({ actor, after }: Answered) => ({ actor, ...after })).reverse();
}

async function readsDuring(
  work: () => Promise<unknown>,
  of: Pick<TestGateway, 'fetch'> = gateway,
): Promise<Answered[]> {
  const before = (await reads(of)).length;
  await work();
  return (await reads(of)).slice(before);
}

const as = (value: string) => ({ headers: { authorization: `Bearer ${value}` } });

async function newResponse(value?: string): Promise<string> {
  const init = value === undefined ? {} : as(value);
  return (await json(await gateway.post('/v1/responses', { model, input: 'A secret' }, init))).id;
}

describe("an administrator's read of another caller's response", () => {
  it('is recorded with the reader, the response and its owner', async () => {
    const { id: keyId, value } = await admin.newKey({ user_path: '/team' });
    const id = await newResponse(value);
    const events = await readsDuring(async () => {
      await admin.get(`/v1/responses/${id}`);
      await admin.get(`/v1/responses/${id}/input_items`);
      await (await gateway.fetch(`/v1/responses/${id}?stream=true`)).text();
    });
    const read = { actor: 'master', id, owner: `key:${keyId}`, owner_path: '/team' };
    expect(events).toEqual([
      { ...read, what: 'response' },
      { ...read, what: 'response_input_items' },
      { ...read, what: 'response_stream' },
    ]);
  });

  it('is recorded for a key with dashboard access too', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const member = await admin.newKey({ user_path: '/team/member' });
    const id = await newResponse(member.value);
    const events = await readsDuring(() => admin.get(`/v1/responses/${id}`, boss.value));
    expect(events).toMatchObject([{ actor: `key:${boss.id}`, owner: `key:${member.id}`, id }]);
  });

  it('is not recorded when it was refused', async () => {
    const boss = await admin.newKey({ user_path: '/team', dashboard_access: true });
    const other = await admin.newKey({ user_path: '/other' });
    const id = await newResponse(other.value);
    expect(await readsDuring(() => admin.refused(`/v1/responses/${id}`, 404, boss.value))).toEqual([]);
  });
});

it("a read by the owner is not recorded as an administrator's read", async () => {
  const { value } = await admin.newKey({ dashboard_access: true });
  const own = await newResponse(value);
  const masters = await newResponse();
  const events = await readsDuring(async () => {
    await admin.get(`/v1/responses/${own}`, value);
    await admin.get(`/v1/responses/${masters}`);
  });
  expect(events).toEqual([]);
});

it("a read by a plain key of the same user path is not recorded as an administrator's read", async () => {
  const one = await admin.newKey({ user_path: '/shared' });
  const other = await admin.newKey({ user_path: '/shared' });
  const id = await newResponse(one.value);
  expect(await readsDuring(() => admin.get(`/v1/responses/${id}`, other.value))).toEqual([]);
});

it("reads of items in another caller's conversation are recorded", async () => {
  const { id: keyId, value } = await admin.newKey();
  const items = [{ type: 'message', role: 'user', content: 'A secret' }];
  const conversation = await json(await gateway.post('/v1/conversations', { items }, as(value)));
  const events = await readsDuring(async () => {
    const { data } = await admin.get(`/v1/conversations/${conversation.id}/items`);
    await admin.get(`/v1/conversations/${conversation.id}/items/${data[0].id}`);
    await admin.get(`/v1/conversations/${conversation.id}`);
    await admin.get(`/v1/conversations/${conversation.id}/items`, value);
  });
  const read = { actor: 'master', what: 'conversation_items', id: conversation.id, owner: `key:${keyId}` };
  expect(events).toEqual([read, read]);
});

it('every connection to the live tail is recorded before it receives anything, with its filters', async () => {
  await (await gateway.post('/v1/chat/completions', { model, messages: user('A secret') })).text();
  const stop = new AbortController();
  const events = await readsDuring(async () => {
    for (const query of ['view=events&cursor=0&user_path=/a&types=request.', 'heartbeat=1']) {
      const answer = await gateway.fetch(`/admin/live/logs?${query}`, { signal: stop.signal });
      await readUntil(answer, 'heartbeat');
    }
  });
  stop.abort();
  expect(events).toEqual([
    { actor: 'master', what: 'live_events', filter: { types: 'request.', user_path: '/a' } },
    { actor: 'master', what: 'live_previews' },
  ]);
});

it('a connection that is refused is not recorded', async () => {
  expect(await readsDuring(() => admin.refused('/admin/live/logs?view=nothing', 400))).toEqual([]);
});

describe('files and batches', () => {
  async function uploaded(value?: string): Promise<string> {
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob([`${JSON.stringify(line())}\n`]), 'in.jsonl');
    const init = { method: 'POST', body: form, ...(value === undefined ? {} : as(value)) };
    return (await json(await withFiles.fetch('/v1/files', init))).id;
  }
  async function newBatch(value: string): Promise<string> {
    const requestBody = {
      input_file_id: await uploaded(value),
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    };
    return (await json(await withFiles.post('/v1/batches', requestBody, as(value)))).id;
  }

  it('of others are recorded when an administrator receives them, and not when it created them', async () => {
    const { id: keyId, value } = await newKey(withFiles, {});
    const global = await newKey(withFiles, { dashboard_access: true });
    const file = await uploaded(value);
    const batch = await newBatch(value);
    const own = await uploaded(global.value);
    const given = [
      `/v1/files/${file}`,
      `/v1/files/${file}/content`,
      `/v1/batches/${batch}`,
      '/v1/files?purpose=batch',
      '/v1/batches',
    ];
    const events = await readsDuring(async () => {
      for (const path of given) expect((await global.fetch(path)).status, path).toBe(200);
      for (const path of given) expect((await withFiles.fetch(path, as(value))).status, path).toBe(200);
      await global.fetch(`/v1/files/${own}`);
      await global.fetch('/v1/files/none_at_all');
    }, withFiles);
    const read = { actor: `key:${global.id}`, owner: `key:${keyId}` };
    expect(events).toEqual([
      { ...read, what: 'file', id: file },
      { ...read, what: 'file_content', id: file },
      { ...read, what: 'batch', id: batch },
      { actor: read.actor, what: 'file_list', filter: { purpose: 'batch' } },
      { actor: read.actor, what: 'batch_list' },
    ]);
  });

  it('that only a provider knows are recorded without an owner', async () => {
    const form = new FormData();
    form.append('purpose', 'batch');
    form.append('file', new Blob(['{}\n']), 'in.jsonl');
    const upstream = await withFiles.fetch('/p/openai/v1/files', { method: 'POST', body: form });
    const { id } = await json(upstream);
    const events = await readsDuring(() => withFiles.fetch(`/v1/files/${id}`), withFiles);
    expect(events).toEqual([{ actor: 'master', what: 'file', id }]);
  });
});
