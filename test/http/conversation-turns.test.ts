import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { both, native, tools, translated, withBothKinds } from '../support/both-kinds.ts';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, eventsOfExchange, eventsUntil, exchangeOf, json, modelsListed } from '../support/with-gateway.ts';

const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds();
const PATH = '/v1/responses';
const CONVERSATIONS = '/v1/conversations';
const as = (userPath: string) => ({ headers: { 'x-gateway-user-path': userPath } });

async function conversation(body: object = {}, init?: RequestInit): Promise<string> {
  return (await json(await gateway.post(CONVERSATIONS, body, init))).id;
}

async function itemsOf(id: string): Promise<ReturnType<typeof json>> {
  return (await json(await gateway.fetch(`${CONVERSATIONS}/${id}/items?order=asc&limit=100`))).data;
}

/** Role and text of each message, and the type of other items. */
function said(items: { type: string; role?: string; content?: { text: string }[] }[]) {
  return items.map(({ type, role, content = [] }) =>
    type === 'message' ? [role, content.map(({ text }) => text).join('')] : type,
  );
}

const calls = () => gateway.simulated.requests.length + nativeProvider.requests.length;

describe.each(both)('a %s response in a conversation', (_kind, model) => {
  it('receives the earlier turns, and is added for the next one', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'My name is Ada.' }] });
    const first = await create({ model, input: 'What is my name?', conversation: id });
    expect(first.output[0].content[0].text).toBe('Your name is Ada.');
    expect(first.conversation).toEqual({ id });
    const second = await stream({ model, input: 'Reply with exactly: two', conversation: { id } });
    const last = second.events.at(-1);
    expect(last).toMatchObject({ type: 'response.completed', response: { conversation: { id } } });
    for (const { response } of second.events) if (response !== undefined) expect(response.conversation).toEqual({ id });
    const items = await itemsOf(id);
    expect(said(items)).toEqual([
      ['user', 'My name is Ada.'],
      ['user', 'What is my name?'],
      ['assistant', 'Your name is Ada.'],
      ['user', 'Reply with exactly: two'],
      ['assistant', 'two'],
    ]);
    expect(items[2].id).toBe(first.output[0].id);
    expect(items[4].id).toBe(last.response.output[0].id);
    const third = await create({ model, input: 'What is my name?', conversation: id });
    expect(third.output[0].content[0].text).toBe('Your name is Ada.');
  });

  it('is recorded in the conversation together with the end of its exchange', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'hi' }] });
    const answer = await gateway.post(PATH, { model, input: 'hi', conversation: id });
    const response = await json(answer);
    const exchange = exchangeOf(answer);
    const events = await eventsOfExchange(gateway, exchange);
    expect(events.find(({ type }) => type === 'history.replayed')?.data).toEqual({
      responses: [],
      conversation: id,
      items: 2,
    });
    const added = await eventsUntil(gateway, `stream=conversation-${id}`, ({ data }) => data.responseId !== undefined);
    expect(added.at(-1)?.data).toMatchObject({ responseId: response.id, exchangeId: exchange });
    expect(await json(await retrieve(response.id))).toEqual(response);
    expect((await json(await retrieve(response.id, '/input_items'))).data).toHaveLength(1);
  });

  it('adds its calls and their results', async () => {
    const id = await conversation();
    const input = 'What is the weather in Paris?';
    const called = await create({ model, input, tools, conversation: id });
    const [call] = called.output;
    expect(call.type).toBe('function_call');
    const result = { type: 'function_call_output', call_id: call.call_id, output: '{"degrees":21}' };
    await create({ model, input: [result], tools, conversation: id });
    expect(said(await itemsOf(id)).slice(0, 3)).toEqual([['user', input], 'function_call', 'function_call_output']);
    expect((await itemsOf(id)).at(-1)).toMatchObject({ type: 'message', role: 'assistant' });
  });

  it('is added also when it is not stored itself', async () => {
    const id = await conversation();
    const response = await create({ model, input: 'Reply with exactly: kept', conversation: id, store: false });
    expect((await itemsOf(id)).map((item: { id: string }) => item.id)).toContain(response.output[0].id);
  });

  it('is added also when its provider ended it too early', async () => {
    const id = await conversation();
    const response = await create({ model, input: 'Tell me something.', conversation: id, max_output_tokens: 2 });
    expect(response.status).toBe('incomplete');
    expect(await itemsOf(id)).toHaveLength(2);
  });

  it('is added also when it is made in the background', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'My name is Ada.' }] });
    const queued = await create({ model, input: 'What is my name?', conversation: id, background: true });
    expect(queued).toMatchObject({ status: 'queued', conversation: { id } });
    const now = async () => json(await retrieve(queued.id));
    await expect.poll(async () => (await now()).status).toBe('completed');
    expect((await now()).conversation).toEqual({ id });
    expect(said(await itemsOf(id))).toEqual([
      ['user', 'My name is Ada.'],
      ['user', 'What is my name?'],
      ['assistant', 'Your name is Ada.'],
    ]);
    const { output } = await now();
    const named = await create({ model: translated, input: [{ type: 'item_reference', id: output[0].id }] });
    expect(named.status).toBe('completed');
  });

  it('is not added when it fails', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'hi' }] });
    const provider = model === native ? nativeProvider : gateway.simulated;
    provider.control.next({ status: 400 });
    expect((await gateway.post(PATH, { model, input: 'hi', conversation: id })).status).toBe(400);
    if (model === native) {
      provider.control.next({ failResponse: true });
      expect((await create({ model, input: 'hi', conversation: id })).status).toBe('failed');
    }
    provider.control.next({ errorInStream: 4 });
    await stream({ model, input: 'hi', conversation: id });
    provider.control.next({ cutAfterChunks: 6 });
    await stream({ model, input: 'hi', conversation: id });
    expect(await itemsOf(id)).toHaveLength(1);
  });

  it('refers to existing items without adding them twice', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'My name is Ada.', id: 'msg_ada' }] });
    const input = [
      { type: 'item_reference', id: 'msg_ada' },
      { role: 'user', content: 'What is my name?' },
    ];
    const response = await create({ model, input, conversation: id });
    expect(response.output[0].content[0].text).toBe('Your name is Ada.');
    expect(await itemsOf(id)).toHaveLength(3);
    const again = { role: 'user', content: 'My name is Bob.', id: 'msg_ada' };
    const answer = await gateway.post(PATH, { model, input: [...input.slice(1), again], conversation: id });
    expect(await errorOf(answer, 400)).toMatchObject({ code: 'duplicate_item', param: 'input[1].id' });
  });

  it('does not receive items that were deleted from it', async () => {
    const id = await conversation({ items: [{ role: 'user', content: 'My name is Ada.', id: 'msg_name' }] });
    await gateway.fetch(`${CONVERSATIONS}/${id}/items/msg_name`, { method: 'DELETE' });
    const response = await create({ model, input: 'What is my name?', conversation: id });
    expect(response.output[0].content[0].text).not.toContain('Ada');
  });

  it.each([
    ['with a previous response', { conversation: `conv_${'1'.repeat(32)}`, previous_response_id: 'resp_1' }],
    ['without an id', { conversation: '' }],
    ['with an empty id', { conversation: { id: '' } }],
    ['of another type', { conversation: 5 }],
  ])('is refused %s, before any provider is called', async (_what, members) => {
    const before = calls();
    const answer = await gateway.post(PATH, { model, input: 'hi', ...members });
    expect((await errorOf(answer, 400)).param).toMatch(/^conversation/);
    expect(calls()).toBe(before);
  });

  it('is refused when the conversation does not exist for this caller', async () => {
    const foreign = await conversation({}, as('/team/a'));
    const deleted = await conversation();
    await gateway.fetch(`${CONVERSATIONS}/${deleted}`, { method: 'DELETE' });
    const before = calls();
    for (const id of [foreign, deleted, `conv_${'0'.repeat(32)}`, 'nonsense']) {
      for (const more of [{}, { stream: true }]) {
        const body = { model, input: 'hi', conversation: id, ...more };
        expect(await errorOf(await gateway.post(PATH, body, as('/team/b')), 404)).toEqual({
          type: 'not_found_error',
          code: 'conversation_not_found',
          message: `The conversation '${id}' was not found.`,
          param: 'conversation',
        });
      }
    }
    expect(calls()).toBe(before);
    expect((await gateway.post(PATH, { model, input: 'hi', conversation: foreign }, as('/team'))).status).toBe(200);
  });

  it('is not added to one that was deleted meanwhile', async () => {
    const id = await conversation();
    const provider = model === native ? nativeProvider : gateway.simulated;
    provider.control.next({ headerDelayMs: 150 });
    const making = gateway.post(PATH, { model, input: 'hi', conversation: id });
    await expect.poll(() => provider.requests.at(-1)?.body ?? '').toContain('hi');
    await gateway.fetch(`${CONVERSATIONS}/${id}`, { method: 'DELETE' });
    expect((await making).status).toBe(200);
    expect((await gateway.fetch(`${CONVERSATIONS}/${id}`)).status).toBe(404);
  });

  it('is added with all others, when many end at the same time', async () => {
    const id = await conversation();
    const inputs = Array.from({ length: 8 }, (_, n) => `Reply with exactly: ${n}`);
    await Promise.all(inputs.map((input) => create({ model, input, conversation: id })));
    const items = said(await itemsOf(id));
    expect(items).toHaveLength(16);
    for (const [n, input] of inputs.entries()) {
      const place = items.findIndex((item) => item[1] === input);
      expect(items[place + 1]).toEqual(['assistant', String(n)]);
    }
  });
});

describe('a conversation', () => {
  it('works across providers, none of which receives its id', async () => {
    const id = await conversation();
    await create({ model: native, input: 'My name is Ada.', conversation: id });
    const here = await create({ model: translated, input: 'What is my name?', conversation: id });
    expect(here.output[0].content[0].text).toBe('Your name is Ada.');
    const there = await create({ model: native, input: 'What is my name?', conversation: id });
    expect(there.output[0].content[0].text).toBe('Your name is Ada.');
    expect(nativeProvider.requests.at(-1)?.body).not.toContain('conversation');
    expect(gateway.simulated.requests.at(-1)?.body).not.toContain('conversation');
  });

  it('is found by the next turn at once, and by one after a restart', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-conversation-'));
    const provider = createSimulatedProvider({ responses: 'absent' });
    const url = await provider.listen();
    const start = async () => {
      const started = await startTestGateway({ dataDir, simulated: false, env: { LLAMACPP_BASE_URL: url } });
      await modelsListed(started);
      return started;
    };
    const model = 'llamacpp/simulated-small';
    let running = await start();
    try {
      const { id } = await json(await running.fetch(CONVERSATIONS, { json: { metadata: { a: '1' } } }));
      await running.fetch(PATH, { json: { model, input: 'My name is Ada.', conversation: id } });
      const now = await json(
        await running.fetch(PATH, { json: { model, input: 'What is my name?', conversation: id } }),
      );
      expect(now.output[0].content[0].text).toBe('Your name is Ada.');
      const before = await json(await running.fetch(`${CONVERSATIONS}/${id}/items`));
      await running.close();
      running = await start();
      expect(await json(await running.fetch(`${CONVERSATIONS}/${id}/items`))).toEqual(before);
      const input = [
        { type: 'item_reference', id: now.output[0].id },
        { role: 'user', content: 'What is my name?' },
      ];
      for (const more of [{ conversation: id }, {}]) {
        const later = await json(await running.fetch(PATH, { json: { model, input, ...more } }));
        expect(later.status).toBe('completed');
      }
      expect((await json(await running.fetch(`${CONVERSATIONS}/${id}`))).metadata).toEqual({ a: '1' });
    } finally {
      await running.close();
      await provider.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});
