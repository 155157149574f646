import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createSimulatedProvider } from '../../infra/simulated-provider/server.ts';
import { both, NATIVE_KEY, native, tools, translated, withBothKinds } from '../support/both-kinds.ts';
import { startTestGateway } from '../support/gateway.ts';
import { errorOf, eventsOfExchange, eventsUntil, exchangeOf, json, modelsListed } from '../support/with-gateway.ts';

const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds();
const PATH = '/v1/responses';
const as = (userPath: string) => ({ headers: { 'x-gateway-user-path': userPath } });
const reference = (id: string) => ({ type: 'item_reference', id });
const question = { role: 'user', content: 'What is the code?' };
const code = 'Reply with exactly: The code is 4711';
const lastNative = () => JSON.parse(nativeProvider.requests.at(-1)?.body ?? '');

/** The id of an output item from a provider of that kind. */
async function saidBy(model: string): Promise<string> {
  return (await create({ model, input: code })).output[0].id;
}

describe.each(both)('a reference to output of a %s response', (_kind, model) => {
  it.each(both)('is resolved for a %s provider', async (_other, to) => {
    const id = await saidBy(model);
    const input = [{ role: 'user', content: code }, reference(id), question];
    const response = await create({ model: to, input });
    expect(response.output[0].content[0].text).toBe('The code is 4711.');
    expect((await json(await retrieve(response.id, '/input_items?order=asc'))).data[1]).toEqual(reference(id));
  });

  it('is resolved in a stream, right after a stream', async () => {
    const { events } = await stream({ model, input: code });
    const { id } = events.at(-1).response.output[0];
    const next = await stream({ model: translated, input: [{ role: 'user', content: code }, reference(id), question] });
    expect(next.events.at(-1).response.output[0].content[0].text).toBe('The code is 4711.');
  });

  it('is resolved when it is a tool call, as an agent does by default', async () => {
    const requestBody = { role: 'user', content: 'What is the weather in Paris?' };
    const called = await create({ model, input: [requestBody], tools });
    const [call] = called.output;
    const result = { type: 'function_call_output', call_id: call.call_id, output: '{"degrees":21}' };
    const answer = await create({ model, input: [requestBody, reference(call.id), result], tools });
    expect(answer.output[0].type).toBe('message');
    const other = model === native ? translated : native;
    expect((await create({ model: other, input: [requestBody, reference(call.id), result], tools })).status).toBe(
      'completed',
    );
  });

  it('is a 404 when the response was deleted', async () => {
    const response = await create({ model, input: code });
    await gateway.fetch(`${PATH}/${response.id}`, { method: 'DELETE' });
    const body = { input: [question, reference(response.output[0].id)] };
    const answer = await gateway.post(PATH, { model: translated, ...body });
    expect(await errorOf(answer, 404)).toMatchObject({ code: 'item_not_found', param: 'input[1].id' });
    expect((await gateway.post(PATH, { model: native, ...body })).status).toBe(404);
  });

  it('is a 404 for callers that may not read it', async () => {
    const made = await json(await gateway.post(PATH, { model, input: code }, as('/team/a')));
    const input = [{ role: 'user', content: code }, reference(made.output[0].id), question];
    for (const [path, status] of [
      ['/team/b', 404],
      ['/team/a/x', 404],
      ['/team/a', 200],
      ['/team', 200],
    ] as const) {
      for (const to of [native, translated]) {
        const answer = await gateway.post(PATH, { model: to, input }, as(path));
        expect(answer.status).toBe(status);
        if (status === 404) expect(await errorOf(answer, 404)).toMatchObject({ code: 'item_not_found' });
      }
    }
  });

  it('can refer to items of earlier turns', async () => {
    const id = await saidBy(model);
    const named = await create({ model: translated, input: [{ role: 'user', content: code }, reference(id)] });
    for (const to of [native, translated]) {
      const response = await create({ model: to, input: [question], previous_response_id: named.id });
      expect(response.status).toBe('completed');
    }
    expect(JSON.stringify(lastNative().input)).toContain('The code is 4711');
  });
});

describe('a reference', () => {
  it.each([{}, { type: null }])('may leave out its type: %j', async (type) => {
    const bare = (id: string) => ({ id, ...type });
    const [own, foreign] = [await saidBy(native), await saidBy(translated)];
    for (const id of [own, foreign]) {
      const input = [{ role: 'user', content: code }, bare(id), question];
      for (const to of [native, translated]) {
        const response = await create({ model: to, input });
        expect(response.output[0].content[0].text).toBe('The code is 4711.');
        expect((await json(await retrieve(response.id, '/input_items?order=asc'))).data[1]).toEqual(reference(id));
      }
    }
  });

  it('may leave out its type in a conversation too', async () => {
    const items = [{ role: 'user', content: 'My name is Ada.' }, { id: await saidBy(translated) }];
    const { id: conversation } = await json(await gateway.post('/v1/conversations', { items }));
    const { data } = await json(await gateway.fetch(`/v1/conversations/${conversation}/items?order=asc`));
    expect(data[1]).toMatchObject({ role: 'assistant', content: [{ text: 'The code is 4711' }] });
    const response = await create({ model: translated, input: [{ id: data[0].id }, question], conversation });
    expect(response.output[0].content[0].text).toBe('The code is 4711.');
    const { data: after } = await json(await gateway.fetch(`/v1/conversations/${conversation}/items?order=asc`));
    expect(after).toHaveLength(4);
  });

  it('has only an id: with other members it is an item', async () => {
    const id = await saidBy(translated);
    const said = { id, role: 'user', content: 'My name is Ada.' };
    const response = await create({ model: translated, input: [said, { role: 'user', content: 'What is my name?' }] });
    expect(response.output[0].content[0].text).toBe('Your name is Ada.');
    const answer = await gateway.post(PATH, { model: translated, input: [{ id, status: 'completed' }] });
    expect(await errorOf(answer, 400)).toMatchObject({ code: 'missing_required_parameter', param: 'input[0].role' });
  });

  it('to an item of a provider is left to that provider, byte for byte', async () => {
    const id = await saidBy(native);
    const body = `{"model":"${native}", "input":[{"type":"item_reference","id":"${id}"} ]}`;
    expect((await gateway.post(PATH, body)).status).toBe(200);
    expect(nativeProvider.requests.at(-1)?.body).toBe(body.replace(native, 'simulated-small'));
  });

  it('to an item unknown to the gateway is left to the provider, if the caller sees everything', async () => {
    const url = `http://${nativeProvider.requests.at(-1)?.headers.host}/v1/responses`;
    const headers = { authorization: `Bearer ${NATIVE_KEY}`, 'content-type': 'application/json' };
    const made = await json(
      await fetch(url, { method: 'POST', headers, body: JSON.stringify({ model: 'simulated-small', input: code }) }),
    );
    const body = { model: native, input: [reference(made.output[0].id), question] };
    expect((await gateway.post(PATH, body)).status).toBe(200);
    expect(await errorOf(await gateway.post(PATH, body, as('/team')), 404)).toMatchObject({ code: 'item_not_found' });
    const { id } = await json(await gateway.post('/v1/conversations', ''));
    const inConversation = await gateway.post(PATH, { ...body, conversation: id });
    expect(await errorOf(inConversation, 404)).toMatchObject({ code: 'item_not_found', param: 'input[0].id' });
  });

  it('among others is resolved where only the gateway has the item', async () => {
    const [own, foreign] = [await saidBy(native), await saidBy(translated)];
    await create({ model: native, input: [reference(own), reference(foreign), question] });
    const [first, second] = lastNative().input;
    expect(first).toEqual(reference(own));
    expect(second).toMatchObject({ type: 'message', role: 'assistant', content: [{ text: 'The code is 4711' }] });
    expect(second).not.toHaveProperty('id');
  });

  it('to an item of the input of a response is resolved', async () => {
    const made = await create({ model: translated, input: [{ role: 'user', content: 'My name is Ada.' }] });
    const { data } = await json(await retrieve(made.id, '/input_items'));
    expect(data[0].id).toMatch(/^msg_[0-9a-f]{32}_i0$/);
    const input = [reference(data[0].id), { role: 'user', content: 'What is my name?' }];
    for (const model of [translated, native]) {
      expect((await create({ model, input })).output[0].content[0].text).toBe('Your name is Ada.');
    }
  });

  it('to an item of a conversation is resolved, as long as the item exists', async () => {
    const { id } = await json(
      await gateway.post('/v1/conversations', {
        items: [{ role: 'user', content: 'My name is Ada.', id: 'msg_kept' }],
      }),
    );
    const input = [reference('msg_kept'), { role: 'user', content: 'What is my name?' }];
    for (const model of [translated, native]) {
      expect((await create({ model, input })).output[0].content[0].text).toBe('Your name is Ada.');
    }
    await gateway.fetch(`/v1/conversations/${id}/items/msg_kept`, { method: 'DELETE' });
    expect((await gateway.post(PATH, { model: translated, input })).status).toBe(404);
  });

  it('to an id of several items resolves to the newest that the caller may read', async () => {
    const item = (name: string) => ({ items: [{ role: 'user', content: `My name is ${name}.`, id: 'msg_same' }] });
    await gateway.post('/v1/conversations', item('Ada'), as('/one'));
    await gateway.post('/v1/conversations', item('Bob'), as('/two'));
    const input = [reference('msg_same'), { role: 'user', content: 'What is my name?' }];
    const answered = async (path: string) =>
      (await json(await gateway.post(PATH, { model: translated, input }, as(path)))).output[0].content[0].text;
    expect(await answered('/one')).toBe('Your name is Ada.');
    expect(await answered('/two')).toBe('Your name is Bob.');
  });

  it.each(['msg_nobody', `msg_${'0'.repeat(32)}_0`, '../../etc', '', 'x'.repeat(500), 'ä'])(
    'to the unknown id %j is refused',
    async (id) => {
      const body = { input: [question, reference(id)] };
      const answer = await gateway.post(PATH, { model: translated, ...body });
      expect(await errorOf(answer, 404)).toMatchObject({ type: 'not_found_error', param: 'input[1].id' });
      expect((await gateway.post(PATH, { model: native, ...body })).status).toBe(404);
      expect((await gateway.post(PATH, { model: native, ...body }, as('/team'))).status).toBe(404);
    },
  );
});

describe('the index of items', () => {
  it('has the items of native responses, and costs translated ones nothing', async () => {
    const answers = await Promise.all([
      gateway.post(PATH, { model: native, input: code }),
      gateway.post(PATH, { model: translated, input: 'What is the weather in Paris?', tools }),
    ]);
    const [theirs, ours] = await Promise.all(answers.map(json));
    for (const answer of answers) await eventsOfExchange(gateway, exchangeOf(answer));
    const [stored] = await eventsUntil(gateway, `stream=item-${theirs.output[0].id}`, () => true);
    expect(stored?.data).toEqual({ holder: 'response', holderId: theirs.id });
    const all = await eventsUntil(gateway, 'types=item.,response.', ({ stream }) => stream === `response-${ours.id}`);
    expect(all.some(({ stream }) => stream === `item-${ours.output[0].id}`)).toBe(false);
  });

  it('exists after a restart', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'chancery-items-'));
    const provider = createSimulatedProvider({ apiKey: NATIVE_KEY });
    const other = createSimulatedProvider({ responses: 'absent' });
    const env = {
      OPENAI_BASE_URL: await provider.listen(),
      OPENAI_API_KEY: NATIVE_KEY,
      LLAMACPP_BASE_URL: await other.listen(),
    };
    const start = async () => {
      const started = await startTestGateway({ dataDir, simulated: false, env });
      await modelsListed(started, 2);
      return started;
    };
    let running = await start();
    try {
      const made = await json(await running.fetch(PATH, { json: { model: native, input: code } }));
      await running.close();
      running = await start();
      const input = [{ role: 'user', content: code }, reference(made.output[0].id), question];
      const next = await json(await running.fetch(PATH, { json: { model: translated, input } }));
      expect(next.output[0].content[0].text).toBe('The code is 4711.');
    } finally {
      await running.close();
      await provider.close();
      await other.close();
      rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
    }
  });
});
