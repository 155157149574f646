/** A stored object keeps its owner, also when another caller's request reads it or records its later events. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { native, withBothKinds } from '../support/both-kinds.ts';
import { type ManagedKey, newKey } from '../support/managed-keys.ts';
import { errorOf, json, user } from '../support/with-gateway.ts';

const { gateway } = withBothKinds({}, { backgroundMs: 1 });

let creator: ManagedKey;
let stranger: ManagedKey;
let admin: ManagedKey;

beforeAll(async () => {
  creator = await newKey(gateway);
  stranger = await newKey(gateway);
  admin = await newKey(gateway, { dashboard_access: true });
});

/** Polls as the administrator until the provider has ended, so that the administrator's request records the end. */
async function untilCompleted(path: string): Promise<Answered> {
  for (;;) {
    const object = await json(await admin.fetch(path));
    if (object.status === 'completed') return object;
    expect(['queued', 'in_progress', 'validating', 'finalizing']).toContain(object.status);
  }
}

async function expectCreatorsAlone(path: string): Promise<void> {
  expect((await creator.fetch(path)).status, path).toBe(200);
  await errorOf(await stranger.fetch(path), 404);
}

describe('a response that a provider makes in the background', () => {
  it('keeps its owner when an administrator’s request recorded its end', async () => {
    const queued = await json(
      await creator.fetch('/v1/responses', { json: { model: native, input: 'hi', background: true } }),
    );
    const made = await untilCompleted(`/v1/responses/${queued.id}`);
    await expectCreatorsAlone(`/v1/responses/${queued.id}`);
    const named = { model: native, input: [{ type: 'item_reference', id: made.output[0].id }, ...user('And?')] };
    expect((await creator.fetch('/v1/responses', { json: named })).status).toBe(200);
    await errorOf(await stranger.fetch('/v1/responses', { json: named }), 404);
  });

  it('is then in the conversation of its owner', async () => {
    const conversation = await json(await creator.fetch('/v1/conversations', { json: {} }));
    const requestBody = { model: native, input: 'hi', background: true, conversation: conversation.id };
    const { id } = await json(await creator.fetch('/v1/responses', { json: requestBody }));
    await untilCompleted(`/v1/responses/${id}`);
    const { data } = await json(await creator.fetch(`/v1/conversations/${conversation.id}/items`));
    expect(data).toHaveLength(2);
    await expectCreatorsAlone(`/v1/conversations/${conversation.id}`);
  });
});

it('an item that an administrator adds to a conversation belongs to the conversation’s owner', async () => {
  const { id } = await json(await creator.fetch('/v1/conversations', { json: {} }));
  const items = [{ type: 'message', id: 'msg_of_the_admin', role: 'user', content: 'more' }];
  expect((await admin.fetch(`/v1/conversations/${id}/items`, { json: { items } })).status).toBe(200);
  const named = { model: native, input: [{ type: 'item_reference', id: 'msg_of_the_admin' }] };
  expect((await creator.fetch('/v1/responses', { json: named })).status).toBe(200);
  await errorOf(await stranger.fetch('/v1/responses', { json: named }), 404);
});

it('the output file of a batch belongs to the owner of the batch when an administrator found it', async () => {
  const form = new FormData();
  form.append('purpose', 'batch');
  form.append('provider', 'openai');
  const line = { custom_id: '1', method: 'POST', url: '/v1/chat/completions', body: { messages: user('hi') } };
  form.append('file', new Blob([`${JSON.stringify({ ...line, body: { ...line.body, model: 'simulated-small' } })}\n`]));
  const { id: input_file_id } = await json(await creator.fetch('/v1/files', { method: 'POST', body: form }));
  const requestBody = { input_file_id, endpoint: '/v1/chat/completions', completion_window: '24h' };
  const { id } = await json(await creator.fetch('/v1/batches', { json: requestBody }));
  const { output_file_id: output } = await untilCompleted(`/v1/batches/${id}`);
  expect(output).toEqual(expect.any(String));
  await expectCreatorsAlone(`/v1/files/${output}`);
  await expectCreatorsAlone(`/v1/files/${output}/content`);
});
