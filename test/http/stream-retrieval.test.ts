/** `GET /v1/responses/{id}?stream=true`: a stored response as its original stream. */
import { describe, expect, it } from 'vitest';
import { both, NATIVE_KEY, native, tools, translated, withBothKinds } from '../support/both-kinds.ts';
import { dataOf, errorOf, json } from '../support/with-gateway.ts';

const kinds = withBothKinds();
const { gateway } = kinds;

const again = async (id: string, query = '') => {
  const answer = await kinds.retrieve(id, `?stream=true${query}`);
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toContain('text/event-stream');
  return answer.text();
};

describe.each(both)('a %s response that was streamed', (_kind, model) => {
  it.each([
    ['text', { input: 'Write 30 words' }],
    ['reasoning', { input: 'think, then reply', reasoning: { effort: 'high', summary: 'auto' } }],
    ['a tool call', { input: 'What is the weather in Paris?', tools }],
    ['a cut answer', { input: 'Write 60 words', max_output_tokens: 16 }],
  ])('is replayed byte for byte: %s', async (_what, body) => {
    const { text, events } = await kinds.stream({ model, ...body });
    const { id } = events[0].response;
    expect(await again(id)).toBe(text);
  });

  it('is replayed after starting_after', async () => {
    const { events } = await kinds.stream({ model, input: 'Write 30 words' });
    const { id } = events[0].response;
    for (const after of [0, 3, events.length - 2]) {
      expect(dataOf(await again(id, `&starting_after=${after}`))).toEqual(events.slice(after + 1));
    }
    expect(await again(id, `&starting_after=${events.length - 1}`)).toBe('data: [DONE]\n\n');
  });

  it('includes its failure', async () => {
    const provider = model === native ? kinds.nativeProvider : gateway.simulated;
    provider.control.next({ cutAfterChunks: 5 });
    const { text, events } = await kinds.stream({ model, input: 'Write 30 words' });
    expect(events.at(-1)).toMatchObject({ type: 'response.failed' });
    expect(dataOf(await again(events[0].response.id))).toEqual(events);
    expect(await again(events[0].response.id)).toBe(text);
  });
});

describe.each(both)('a %s response that was not streamed', (_kind, model) => {
  it.each([
    ['text', { input: 'Write 30 words' }],
    ['a tool call', { input: 'What is the weather in Paris?', tools }],
  ])('is returned as a stream: %s', async (_what, body) => {
    const made = await kinds.create({ model, ...body });
    const events = dataOf(await again(made.id));
    expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, index) => index));
    expect(events[0]).toMatchObject({ type: 'response.created', response: { id: made.id, output: [] } });
    expect(events.at(-1)).toEqual({ type: 'response.completed', sequence_number: events.length - 1, response: made });
    const done = events.filter(({ type }) => type === 'response.output_item.done').map(({ item }) => item);
    expect(done).toEqual(made.output);
  });
});

describe('a retrieved stream', () => {
  it('is a 404 when there is no such response', async () => {
    await errorOf(await kinds.retrieve('resp_none', '?stream=true'), 404);
  });

  it('is a 404 when the response was not stored or was deleted', async () => {
    const { events } = await kinds.stream({ input: 'hi', store: false });
    await errorOf(await kinds.retrieve(events[0].response.id, '?stream=true'), 404);
    const { id } = await kinds.create({ model: translated, input: 'hi' });
    await gateway.fetch(`/v1/responses/${id}`, { method: 'DELETE' });
    await errorOf(await kinds.retrieve(id, '?stream=true'), 404);
  });

  it.each(['-1', 'x', '1.5'])('refuses to start after %s', async (after) => {
    const { id } = await kinds.create({ input: 'hi' });
    const refused = await errorOf(await kinds.retrieve(id, `?stream=true&starting_after=${after}`), 400);
    expect(refused.param).toBe('starting_after');
  });

  it('comes from the provider in the query when the response is not on record', async () => {
    const made = await fetch(`${kinds.nativeUrl}/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${NATIVE_KEY}` },
      body: JSON.stringify({ model: 'simulated-small', input: 'hi' }),
    });
    const { id } = await json(made);
    const text = await again(id, '&provider=openai');
    expect(dataOf(text).at(-1)).toMatchObject({ type: 'response.completed', response: { id } });
    const refused = await errorOf(await kinds.retrieve('resp_none', '?stream=true&provider=llamacpp'), 501);
    expect(refused.code).toBe('unsupported_response_operation');
  });
});
