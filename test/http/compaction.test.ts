/** `POST /v1/responses/compact` on providers without it: a sealed summary, and requests that continue from it. */
import { expect, it } from 'vitest';
import { native, translated, withBothKinds } from '../support/both-kinds.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { newKey } from '../support/managed-keys.ts';
import { openSocket } from '../support/response-socket.ts';
import { errorOf, eventsUntil, json } from '../support/with-gateway.ts';

const { gateway, nativeProvider, create } = withBothKinds(withGuardrails);
const SUMMARY = 'The user is called Ada and wants a lighthouse.';
const conversation = [
  { role: 'user', content: 'My name is Ada. I want a lighthouse.' },
  { role: 'assistant', content: 'Noted.' },
];
const by = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });

async function compacted(body: object = {}, key?: string) {
  const answer = await gateway.post(
    '/v1/responses/compact',
    { model: translated, input: conversation, ...body },
    key === undefined ? {} : by(key),
  );
  expect(answer.status, await answer.clone().text()).toBe(200);
  return json(answer);
}

/** The next chat completion has this text. */
const summaryIs = (text: string) => gateway.simulated.control.next({ text }, { path: '/v1/chat/completions' });

it('answers with the messages of the user and one item, which does not show its content', async () => {
  summaryIs(SUMMARY);
  const answer = await compacted({ stream: true, tools: [{ type: 'web_search' }] });
  expect(answer).toMatchObject({
    id: expect.stringMatching(/^resp_/),
    object: 'response.compaction',
    created_at: expect.any(Number),
    output: [
      { type: 'message', role: 'user', status: 'completed', content: [{ type: 'input_text' }] },
      { type: 'compaction', id: expect.stringMatching(/^cmp_/), encrypted_content: expect.any(String) },
    ],
    usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
  });
  const { encrypted_content: content } = answer.output[1];
  expect(Buffer.from(content.split('.').at(-1) ?? '', 'base64url').toString('latin1')).not.toContain('Ada');
  const { messages } = JSON.parse(gateway.lastProviderRequest().body);
  expect(JSON.stringify(messages)).toContain('lighthouse');
  expect(messages.at(-1)).toMatchObject({ role: 'user', content: expect.stringContaining('Summarise') });
});

it.each([
  ['translated', translated],
  ['native', native],
])('is read in later requests: HTTP, stored turns and WebSockets (%s)', async (_kind, model) => {
  summaryIs(SUMMARY);
  const { output } = await compacted();
  const input = [output.at(-1), { role: 'user', content: 'Go on.' }];
  const sent = () =>
    (model === native ? nativeProvider.requests : gateway.simulated.requests).findLast(({ body }) =>
      body.includes('Go on.'),
    )?.body;
  const first = await create({ model, input });
  expect(sent()).toContain(SUMMARY);
  expect(sent()).not.toContain('chancery.compaction');
  const items = await json(await gateway.fetch(`/v1/responses/${first.id}/input_items?order=asc`));
  expect(items.data[0]).toMatchObject({ type: 'compaction', encrypted_content: output.at(-1).encrypted_content });
  const socket = await openSocket(gateway.url);
  expect(await socket.turn({ model, store: false, input })).toMatchObject({ type: 'response.completed' });
  expect(sent()).toContain(SUMMARY);
  socket.socket.close();
  // The chain that a translated provider gets has it, too.
  await create({ model: translated, previous_response_id: first.id, input: 'And then?' });
  expect(gateway.lastProviderRequest().body).toContain(SUMMARY);
});

it('compacts earlier turns, and a compaction again', async () => {
  const first = await create({ input: 'The word is cobalt.' });
  summaryIs('It was cobalt.');
  const { output } = await compacted({ previous_response_id: first.id, input: 'And teal.' });
  expect(gateway.lastProviderRequest().body).toContain('The word is cobalt.');
  expect(output).toHaveLength(3);
  summaryIs('Cobalt and teal.');
  const again = await compacted({ input: output });
  expect(gateway.lastProviderRequest().body).toContain('It was cobalt.');
  expect(JSON.stringify(again.output)).not.toContain('It was cobalt.');
  expect(again.output.map(({ type }: { type: string }) => type)).toEqual(['message', 'message', 'compaction']);
});

it('is recorded and charged as a model request', async () => {
  const key = await newKey(gateway, { user_path: '/compaction/charged' });
  await compacted({}, key.value);
  const events = await eventsUntil(gateway, 'user_path=/compaction/charged', ({ type }) => type === 'usage.recorded');
  const types = events.map(({ type }) => type);
  for (const type of ['request.received', 'attempt.started', 'exchange.completed']) expect(types).toContain(type);
  expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
    provider: 'llamacpp',
    inputTokens: expect.any(Number),
    outputTokens: expect.any(Number),
  });
});

it('can be used by callers who see what its creator stores, and is refused if it was changed', async () => {
  const owner = await newKey(gateway, { user_path: '/compaction/a' });
  const below = await newKey(gateway, { user_path: '/compaction' });
  const other = await newKey(gateway, { user_path: '/compaction/b' });
  const { output } = await compacted({}, owner.value);
  const [item] = output.slice(-1);
  const ask = (key: string, one: object) =>
    gateway.post('/v1/responses', { model: translated, input: [one, { role: 'user', content: 'Go on.' }] }, by(key));
  for (const { value } of [owner, below]) expect((await ask(value, item)).status).toBe(200);
  const text: string = item.encrypted_content;
  const at = text.length - 5;
  const changed = text.slice(0, at) + (text[at] === 'A' ? 'B' : 'A') + text.slice(at + 1);
  for (const [key, content] of [
    [other.value, text],
    [owner.value, changed],
    [owner.value, `${text}AA`],
    [owner.value, `${text}=`],
    [owner.value, `${text.slice(0, 30)} ${text.slice(30)}`],
    [owner.value, `${text.split('.').slice(0, 3).join('.')}.v1.00000000.AAAA`],
  ] as const) {
    const answer = await ask(key, { ...item, encrypted_content: content });
    expect(await errorOf(answer, 400)).toMatchObject({ code: 'invalid_value', param: 'input[0].encrypted_content' });
  }
  // Of another provider, which only that provider can read.
  expect((await ask(owner.value, { type: 'compaction', encrypted_content: 'gAAAAB' })).status).toBe(400);
});

it.each([translated, native])('is read where its item is named, by the same callers (%s)', async (model) => {
  const owner = await newKey(gateway, { user_path: '/compaction/named/a' });
  const other = await newKey(gateway, { user_path: '/compaction/named/b' });
  summaryIs(SUMMARY);
  const { output } = await compacted({}, owner.value);
  const ask = async (key: string, path = '/v1/responses') => {
    const held = await gateway.post('/v1/conversations', { items: output.slice(-1) }, by(key));
    const [item] = (await json(await gateway.fetch(`/v1/conversations/${(await json(held)).id}/items`, by(key)))).data;
    const input = [
      { type: 'item_reference', id: item.id },
      { role: 'user', content: 'Go on.' },
    ];
    return gateway.post(path, { model, input }, by(key));
  };
  const requests = model === native ? nativeProvider.requests : gateway.simulated.requests;
  expect((await ask(owner.value)).status).toBe(200);
  expect(requests.at(-1)?.body).toContain(SUMMARY);
  const before = requests.length;
  for (const path of ['/v1/responses', '/v1/responses/compact']) {
    expect(await errorOf(await ask(other.value, path), 400)).toMatchObject({ param: 'input[0].id' });
  }
  expect(requests).toHaveLength(before);
});

it.each([
  ['has no text', { emptyChoices: true }, 'bad_provider_answer'],
  ['is blank', { text: ' ' }, 'bad_provider_answer'],
])('is refused when the summary %s', async (_what, fault, code) => {
  gateway.simulated.control.next(fault, { path: '/v1/chat/completions' });
  const answer = await gateway.post('/v1/responses/compact', { model: translated, input: 'hi' });
  expect(await errorOf(answer, 502)).toMatchObject({ code });
});

it.each([
  [{ model: translated }, 400, 'missing_required_parameter'],
  [{ input: 'hi' }, 400, 'missing_required_parameter'],
  [{ model: translated, input: { role: 'user', content: 'hi' } }, 400, 'invalid_type'],
  [{ model: translated, input: 'hi', previous_response_id: 'resp_none' }, 404, 'previous_response_not_found'],
])('refuses %j', async (body, status, code) => {
  const answer = await gateway.post('/v1/responses/compact', body);
  expect(await errorOf(answer, status)).toMatchObject({ code });
});

it('is read by guardrails, and refused at the endpoint where a workflow has some', async () => {
  const userPath = '/compaction/guarded';
  const { value } = await newKey(gateway, { user_path: userPath });
  summaryIs(SUMMARY);
  const { output } = await compacted({}, value);
  await saveGuardrail(gateway, { name: 'towers', type: 'string_replace', config: { rules: 'lighthouse => tower' } });
  await guard(gateway, userPath, [{ ref: 'towers' }]);
  const input = [output.at(-1), { role: 'user', content: 'Go on.' }];
  const answer = await gateway.post('/v1/responses', { model: translated, input }, by(value));
  expect(answer.status, await answer.clone().text()).toBe(200);
  expect(gateway.lastProviderRequest().body).toContain('wants a tower');
  expect(gateway.lastProviderRequest().body).not.toContain('lighthouse');
  const refused = await gateway.post('/v1/responses/compact', { model: translated, input }, by(value));
  expect(refused.status).toBe(403);
});
