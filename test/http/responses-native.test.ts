import { describe, expect, it } from 'vitest';
import { NATIVE_KEY, native, withBothKinds } from '../support/both-kinds.ts';
import { dataOf, errorOf, eventsOf, eventsOfExchange, exchangeOf, json } from '../support/with-gateway.ts';

const { gateway, nativeProvider, create, stream, retrieve } = withBothKinds();
const PATH = '/v1/responses';

describe('a native response', () => {
  it('is passed on byte for byte except for the member provider, as is the request except for the model', async () => {
    const body = `{ "x":9007199254740993123, "model":"${native}","input":"hi" , "metadata":{"b":"1","a":"2"}}`;
    const answer = await gateway.post(PATH, body);
    const providerRequest = nativeProvider.requests.at(-1);
    expect(providerRequest?.path).toBe('/v1/responses');
    expect(providerRequest?.body).toBe(body.replace(native, 'simulated-small'));
    expect(providerRequest?.headers.authorization).toBe(`Bearer ${NATIVE_KEY}`);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const sent = String(events.find(({ type }) => type === 'chunk.received')?.body);
    expect(sent).not.toContain('"provider"');
    expect(await answer.text()).toBe(sent.replace(/\}$/, ',"provider":"openai"}'));
  });

  it('names its provider wherever it is a whole object, and its stream has it as a header', async () => {
    const answer = await gateway.post(PATH, { model: native, input: 'hi', stream: true });
    expect(answer.headers.get('x-provider')).toBe('openai');
    const streamed = dataOf(await answer.text()).at(-1).response;
    expect(streamed).not.toHaveProperty('provider');
    expect(await json(await retrieve(streamed.id))).toEqual({ ...streamed, provider: 'openai' });
    const queued = await create({ model: native, input: 'Write 400 words.', background: true });
    expect(queued.provider).toBe('openai');
    expect(await json(await retrieve(queued.id))).toMatchObject({ provider: 'openai' });
    const cancelled = await gateway.fetch(`${PATH}/${queued.id}/cancel`, { method: 'POST' });
    expect(await json(cancelled)).toMatchObject({ provider: 'openai' });
  });

  it('is streamed unchanged', async () => {
    const { text, exchange } = await stream({ model: native, input: 'Tell me something.' });
    const events = await eventsOfExchange(gateway, exchange);
    expect(text).toBe(
      events
        .filter(({ type }) => type === 'chunk.received')
        .map(({ body }) => body)
        .join(''),
    );
  });

  it('is continued by its own provider through previous_response_id', async () => {
    const first = await create({ model: native, input: 'hi' });
    await create({ model: native, input: 'and?', previous_response_id: first.id });
    expect(JSON.parse(nativeProvider.requests.at(-1)?.body ?? '')).toMatchObject({
      input: 'and?',
      previous_response_id: first.id,
    });
    const unknown = await gateway.post(PATH, { model: native, input: 'hi', previous_response_id: 'resp_nobody' });
    expect(await errorOf(unknown, 400)).toMatchObject({
      code: 'previous_response_not_found',
      param: 'previous_response_id',
      provider: 'openai',
    });
  });

  it('that is unknown to this gateway is found at the provider', async () => {
    const url = `http://${nativeProvider.requests.at(-1)?.headers.host}/v1/responses`;
    const headers = { authorization: `Bearer ${NATIVE_KEY}`, 'content-type': 'application/json' };
    const made = await fetch(url, { method: 'POST', headers, body: '{"model":"simulated-small","input":"hi"}' });
    const { id } = await json(made);
    for (const query of ['', '?provider=openai']) {
      const found = await retrieve(id, query);
      expect(found.status).toBe(200);
      expect(await json(found)).toMatchObject({ id, provider: 'openai' });
      expect((await json(await retrieve(id, `/input_items${query}`))).data).toHaveLength(1);
    }
    const deleted = await gateway.fetch(`${PATH}/${id}?provider=openai`, { method: 'DELETE' });
    expect(await json(deleted)).toMatchObject({ id, deleted: true });
    expect(await errorOf(await retrieve(id), 404)).toMatchObject({ type: 'not_found_error' });
  });

  it('is deleted at the provider too', async () => {
    const { id } = await create({ model: native, input: 'hi' });
    await gateway.fetch(`${PATH}/${id}`, { method: 'DELETE' });
    expect(nativeProvider.requests.at(-1)).toMatchObject({ method: 'DELETE', path: `/v1/responses/${id}` });
    expect((await retrieve(id, '?provider=openai')).status).toBe(404);
  });

  it('in the background is queued at first, and has its current state on each GET', async () => {
    const queued = await create({ model: native, input: 'Reply with exactly: done', background: true });
    expect(queued.status).toBe('queued');
    await expect
      .poll(async () => (await json(await retrieve(queued.id))).status, { timeout: 2000, interval: 20 })
      .toBe('completed');
    const calls = nativeProvider.requests.length;
    expect((await json(await retrieve(queued.id))).output[0].content[0].text).toBe('done');
    expect(nativeProvider.requests).toHaveLength(calls);
  });

  it('in the background keeps its last known state when the provider cannot be reached', async () => {
    const queued = await create({ model: native, input: 'hi', background: true });
    nativeProvider.control.next({ status: 500 }, { path: `/v1/responses/${queued.id}` });
    expect(await json(await retrieve(queued.id))).toEqual(queued);
  });

  it('whose stream the provider cuts off fails, and is stored as failed', async () => {
    nativeProvider.control.next({ cutAfterChunks: 7 });
    const { text, events } = await stream({ model: native, input: 'Tell me something.' });
    const last = events.at(-1);
    expect(last).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'stream_incomplete' }, id: events[0].response.id },
    });
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, index) => index));
    expect(eventsOf(text).at(-1)?.data).toBe('[DONE]');
    expect(await json(await retrieve(last.response.id))).toEqual(last.response);
  });

  it('whose provider reports an error in mid-stream fails for every client, and is stored as failed', async () => {
    nativeProvider.control.next({ errorInStream: 5, message: 'out of memory', code: 'oom' });
    const { events } = await stream({ model: native, input: 'Tell me something.' });
    const [error, failed] = events.slice(-2);
    expect(error).toMatchObject({ type: 'error', code: 'oom', message: 'out of memory' });
    expect(failed).toMatchObject({ type: 'response.failed', response: { status: 'failed', error: { code: 'oom' } } });
    expect(events.filter(({ type }) => type === 'error')).toHaveLength(1);
    expect((await json(await retrieve(failed.response.id))).status).toBe('failed');
  });
});
