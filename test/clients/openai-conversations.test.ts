/** OpenAI's own client, unchanged: every helper for conversations. */
import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway } = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });

let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });
});

const user = (content: string) => ({ type: 'message' as const, role: 'user' as const, content });

describe("OpenAI's client with conversations", () => {
  it('creates, fetches, updates and deletes them', async () => {
    const created = await client.conversations.create({ metadata: { topic: 'tea' }, items: [user('hi')] });
    expect(created).toMatchObject({ object: 'conversation', metadata: { topic: 'tea' } });
    expect(await client.conversations.retrieve(created.id)).toEqual(created);
    const updated = await client.conversations.update(created.id, { metadata: { place: 'here' } });
    expect(updated.metadata).toEqual({ topic: 'tea', place: 'here' });
    expect(await client.conversations.delete(created.id)).toEqual({
      id: created.id,
      object: 'conversation.deleted',
      deleted: true,
    });
    await expect(client.conversations.retrieve(created.id)).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('creates one without parameters', async () => {
    expect((await client.conversations.create()).id).toMatch(/^conv_/);
  });

  it('adds, lists, fetches and deletes their items', async () => {
    const { id } = await client.conversations.create();
    const added = await client.conversations.items.create(id, {
      items: Array.from({ length: 20 }, (_, n) => user(`message ${n}`)),
      include: ['message.output_text.logprobs'],
    });
    expect(added.data).toHaveLength(20);
    await client.conversations.items.create(id, { items: [user('message 20')] });
    const ids: string[] = [];
    for await (const item of client.conversations.items.list(id, { limit: 6, order: 'asc' })) ids.push(item.id ?? '');
    expect(ids).toHaveLength(21);
    expect(new Set(ids).size).toBe(21);
    expect(ids.slice(0, 20)).toEqual(added.data.map((item) => item.id));
    const item = await client.conversations.items.retrieve(ids[3] ?? '', { conversation_id: id });
    expect(item).toMatchObject({ type: 'message', status: 'completed', content: [{ text: 'message 3' }] });
    const conversation = await client.conversations.items.delete(ids[3] ?? '', { conversation_id: id });
    expect(conversation.id).toBe(id);
    const gone = client.conversations.items.retrieve(ids[3] ?? '', { conversation_id: id });
    await expect(gone).rejects.toThrow(OpenAI.NotFoundError);
  });
});

describe.each(both)("OpenAI's client with a %s response", (_kind, model) => {
  it('continues in a conversation, whole or in a stream', async () => {
    const { id } = await client.conversations.create({ items: [user('My name is Ada.')] });
    const first = await client.responses.create({ model, input: 'What is my name?', conversation: id });
    expect(first.output_text).toBe('Your name is Ada.');
    expect(first.conversation).toEqual({ id });
    const streamed = client.responses.stream({ model, input: 'What is my name?', conversation: { id } });
    const final = await streamed.finalResponse();
    expect(final.output_text).toBe('Your name is Ada.');
    expect(final.conversation).toEqual({ id });
    const page = await client.conversations.items.list(id);
    expect(page.data[0]).toMatchObject({ id: final.output[0]?.id, role: 'assistant', status: 'completed' });
    expect(page.data).toHaveLength(5);
  });

  it('throws for an unknown conversation', async () => {
    const pendingAnswer = client.responses.create({ model, input: 'hi', conversation: `conv_${'0'.repeat(32)}` });
    await expect(pendingAnswer).rejects.toMatchObject({
      status: 404,
      code: 'conversation_not_found',
      param: 'conversation',
    });
  });
});
