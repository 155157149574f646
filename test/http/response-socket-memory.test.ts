/** Turns that continue responses of the same WebSocket, also those that are not stored. */
import { describe, expect, it } from 'vitest';
import { both, native, translated, withBothKinds } from '../support/both-kinds.ts';
import { newKey } from '../support/managed-keys.ts';
import { openSocket } from '../support/response-socket.ts';
import { errorOf, eventsUntil } from '../support/with-gateway.ts';

const { gateway, nativeProvider, create } = withBothKinds();
const NOT_FOUND = {
  type: 'error',
  status: 400,
  error: { code: 'previous_response_not_found', param: 'previous_response_id' },
};
const key = () => newKey(gateway, { user_path: '/sockets/memory' });
/** The texts that the provider got last. */
const sent = (model: string) => {
  const { requests } = model === native ? nativeProvider : gateway.simulated;
  return requests.findLast(({ path }) => /responses$|completions$/.test(path))?.body ?? '';
};

describe.each(both)('a response with store: false (%s)', (_kind, model) => {
  it('is continued on its socket, turn after turn, and on no other', async () => {
    const { value } = await key();
    const socket = await openSocket(gateway.url, value);
    const first = await socket.turn({ model, store: false, input: 'The word is cobalt.' });
    const second = await socket.turn({ model, store: false, previous_response_id: first.response.id, input: 'Which?' });
    expect(second).toMatchObject({
      type: 'response.completed',
      response: { previous_response_id: first.response.id, store: false },
    });
    await socket.turn({ model, store: false, previous_response_id: second.response.id, input: 'Again?' });
    const body = sent(model);
    for (const text of ['The word is cobalt.', 'Which?', 'Again?']) expect(body).toContain(text);
    expect(body).not.toContain('previous_response_id');
    expect((await gateway.fetch(`/v1/responses/${first.response.id}`)).status).toBe(404);
    const other = await openSocket(gateway.url, value);
    const lost = { model, store: false, previous_response_id: first.response.id, input: 'Which?' };
    expect(await other.turn(lost)).toMatchObject(NOT_FOUND);
    expect(await socket.turn(lost)).toMatchObject({ type: 'response.completed' });
    for (const one of [socket, other]) one.socket.close();
  });

  it('is forgotten when a turn that continues it fails, and kept when that turn is cancelled', async () => {
    const socket = await openSocket(gateway.url, (await key()).value);
    const first = await socket.turn({ model, store: false, input: 'The word is ember.' });
    const next = { model, store: false, previous_response_id: first.response.id, input: 'Which?' };
    socket.send({ type: 'response.create', ...next, simulate: { holdAfterChunks: 2 } });
    await socket.until(({ type }) => type === 'response.created');
    socket.send({ type: 'response.cancel' });
    expect(await socket.until(({ type }) => type === 'error')).toMatchObject({ error: { code: 'response_cancelled' } });
    expect(await socket.turn({ ...next, simulate: { status: 400 } })).toMatchObject({ type: 'error', status: 400 });
    expect(await socket.turn(next)).toMatchObject(NOT_FOUND);
    socket.socket.close();
  });

  it('is warmed with generate: false, without a call, and on record', async () => {
    const { value, id } = await key();
    const socket = await openSocket(gateway.url, value);
    const calls = () => gateway.simulated.requests.length + nativeProvider.requests.length;
    const before = calls();
    const warm = await socket.turn({ model, store: false, generate: false, input: 'Prepare for the word umber.' });
    expect(warm).toMatchObject({ type: 'response.completed', response: { status: 'completed', output: [] } });
    expect(socket.messages.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.completed',
    ]);
    expect(calls()).toBe(before);
    const events = await eventsUntil(
      gateway,
      `types=exchange.completed`,
      ({ actor, data }) => actor === `key:${id}` && data.attempt === 0,
    );
    expect(events.at(-1)?.data).toMatchObject({ status: 200, attempt: 0 });
    const previous_response_id = warm.response.id;
    const end = await socket.turn({ model, store: false, previous_response_id, input: 'Now.' });
    expect(end).toMatchObject({ type: 'response.completed', response: { previous_response_id } });
    expect(sent(model)).toContain('Prepare for the word umber.');
    const missing = { model, generate: false, previous_response_id: 'resp_missing', input: 'Now.' };
    expect(await socket.turn(missing)).toMatchObject(NOT_FOUND);
    socket.socket.close();
  });
});

describe('generate: false', () => {
  it('counts in the rate limits', async () => {
    const limit = { user_path: '/sockets/limited', limit_key: { period: 'hour' }, max_requests: 2 };
    expect((await gateway.fetch('/admin/rate-limits', { method: 'PUT', json: limit })).status).toBe(200);
    const socket = await openSocket(gateway.url, (await newKey(gateway, { user_path: '/sockets/limited' })).value);
    const warm = { model: translated, store: false, generate: false, input: 'Prepare.' };
    for (let n = 0; n < 2; n++) expect(await socket.turn(warm)).toMatchObject({ type: 'response.completed' });
    expect(await socket.turn(warm)).toMatchObject({ status: 429, error: { code: 'rate_limit_exceeded' } });
    socket.socket.close();
  });

  it('lengthens a chain up to 256 responses', async () => {
    const socket = await openSocket(gateway.url, (await key()).value);
    let previous_response_id: string | undefined;
    const add = () =>
      socket.turn({ model: translated, store: false, generate: false, previous_response_id, input: 'More.' });
    for (let n = 0; n < 257; n++) previous_response_id = (await add()).response.id;
    expect(await add()).toMatchObject({ status: 400, error: { code: 'previous_response_chain_too_long' } });
    socket.socket.close();
  });
});

describe('a chain', () => {
  it.each(both.flatMap(([kind, model]) => [true, false].map((generate) => [kind, generate, model] as const)))(
    'of which a response was forgotten is not found (%s, generate: %s)',
    async (_kind, generate, model) => {
      const socket = await openSocket(gateway.url, (await key()).value);
      const first = await socket.turn({ model, store: false, input: 'The word is indigo.' });
      const continued = { model, store: false, previous_response_id: first.response.id, input: 'Which?' };
      const second = await socket.turn(continued);
      // The failure forgets the first one.
      expect(await socket.turn({ ...continued, simulate: { status: 400 } })).toMatchObject({ status: 400 });
      const third = { model, generate, store: false, previous_response_id: second.response.id, input: 'Again?' };
      expect(await socket.turn(third)).toMatchObject({
        ...NOT_FOUND,
        error: { ...NOT_FOUND.error, message: expect.stringContaining(first.response.id) },
      });
      socket.socket.close();
    },
  );

  it('that is stored in part is not found elsewhere', async () => {
    const socket = await openSocket(gateway.url);
    const first = await socket.turn({ model: translated, store: false, input: 'The word is ochre.' });
    const stored = await socket.turn({ model: translated, previous_response_id: first.response.id, input: 'Which?' });
    const next = { previous_response_id: stored.response.id, input: 'Again?' };
    for (const model of [translated, native]) {
      const answer = await gateway.post('/v1/responses', { model, ...next });
      expect(await errorOf(answer, 404)).toMatchObject({ code: 'previous_response_not_found' });
    }
    expect(await socket.turn({ model: translated, ...next })).toMatchObject({ type: 'response.completed' });
    expect(sent(translated)).toContain('The word is ochre.');
    socket.socket.close();
  });

  it('may have stored and other responses, and models of several providers', async () => {
    const socket = await openSocket(gateway.url);
    const stored = await create({ input: 'One.' });
    const second = await socket.turn({ model: native, store: false, previous_response_id: stored.id, input: 'Two.' });
    const third = await socket.turn({ model: translated, previous_response_id: second.response.id, input: 'Three.' });
    const fourth = await socket.turn({ model: native, previous_response_id: third.response.id, input: 'Four.' });
    expect(fourth).toMatchObject({ type: 'response.completed' });
    for (const text of ['One.', 'Two.', 'Three.', 'Four.']) expect(sent(native)).toContain(text);
    socket.socket.close();
  });

  it('is kept within a number of bytes: the oldest responses are forgotten', async () => {
    const socket = await openSocket(gateway.url, (await key()).value);
    const turn = (text: string) => socket.turn({ model: translated, store: false, generate: false, input: text });
    const first = await turn('a'.repeat(12_000_000));
    const second = await turn('b'.repeat(12_000_000));
    const third = await turn('c'.repeat(12_000_000));
    const next = (previous: { response: { id: string } }) =>
      socket.turn({ model: translated, generate: false, previous_response_id: previous.response.id, input: 'on' });
    expect(await next(first)).toMatchObject(NOT_FOUND);
    expect(await next(second)).toMatchObject({ type: 'response.completed' });
    expect(await next(third)).toMatchObject({ type: 'response.completed' });
    socket.socket.close();
  });
});
