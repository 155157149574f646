/** The cases of the Open Responses compliance suite (2026-04-24) for WebSockets, by their ids. */
import { describe, expect, it } from 'vitest';
import { both, native, withBothKinds } from '../support/both-kinds.ts';
import { newKey } from '../support/managed-keys.ts';
import { openSocket, type TestSocket } from '../support/response-socket.ts';
import { json } from '../support/with-gateway.ts';
import { checkStream } from '../translate/openai-shape.ts';

const { gateway } = withBothKinds();

async function open(): Promise<TestSocket> {
  return openSocket(gateway.url, (await newKey(gateway, { user_path: '/open-responses' })).value);
}

/** A turn that must succeed, with valid events. */
async function completed(socket: TestSocket, body: { readonly model: string; readonly [member: string]: unknown }) {
  const from = socket.messages.length;
  const end = await socket.turn(body);
  expect(end).toMatchObject({ type: 'response.completed', response: { status: 'completed', id: expect.any(String) } });
  // Events of a native provider are its own.
  if (body.model !== native) checkStream(socket.messages.slice(from));
  return end.response;
}

const NOT_FOUND = { type: 'error', error: { code: 'previous_response_not_found' } };

describe.each(both)('Open Responses over WebSocket (%s)', (_kind, model) => {
  const remember = { model, store: false, input: 'Remember the code word: cobalt. Reply with OK.' };

  it('websocket-response', async () => {
    const input = [{ type: 'message', role: 'user', content: 'Count from 1 to 3.' }];
    expect((await completed(await open(), { model, input })).output).not.toEqual([]);
  });

  it('websocket-sequential-responses', async () => {
    const socket = await open();
    for (const word of ['first', 'second']) {
      const { output } = await completed(socket, { model, store: false, input: `Reply with exactly: ${word}` });
      expect(JSON.stringify(output)).toContain(word);
    }
  });

  it('websocket-continuation', async () => {
    const socket = await open();
    const { id } = await completed(socket, remember);
    const input = 'What is the code word? Reply with only the code word.';
    await completed(socket, { model, store: false, previous_response_id: id, input });
  });

  it('websocket-generate-false', async () => {
    const socket = await open();
    const { id, output } = await completed(socket, { ...remember, generate: false });
    expect(output).toEqual([]);
    await completed(socket, { model, store: false, previous_response_id: id, input: 'Reply with exactly: warmed' });
  });

  it('websocket-reconnect-recovery', async () => {
    const first = await open();
    const { id, output } = await completed(first, remember);
    first.socket.close();
    await first.closed;
    const second = await open();
    const question = { role: 'user', content: 'What is the code word?' };
    expect(await second.turn({ model, store: false, previous_response_id: id, input: [question] })).toMatchObject(
      NOT_FOUND,
    );
    const input = [{ role: 'user', content: remember.input }, ...output, question];
    await completed(second, { model, store: false, input });
  });

  it('websocket-previous-response-not-found', async () => {
    const missing = {
      model,
      store: false,
      previous_response_id: 'resp_openresponses_missing_1',
      input: 'This must fail.',
    };
    expect(await (await open()).turn(missing)).toMatchObject(NOT_FOUND);
  });

  it('websocket-failed-continuation-evicts-cache', async () => {
    const socket = await open();
    const { id } = await completed(socket, remember);
    const call = {
      type: 'function_call_output',
      call_id: 'call_openresponses_missing',
      output: 'No such call exists.',
    };
    // Providers refuse the output of a call that was not made.
    const failing = { model, store: false, previous_response_id: id, input: [call], simulate: { status: 400 } };
    expect(await socket.turn(failing)).toMatchObject({ type: 'error', status: 400 });
    expect(await socket.turn({ model, store: false, previous_response_id: id, input: 'Go on.' })).toMatchObject(
      NOT_FOUND,
    );
  });
});

it.each(both)('websocket-compact-new-chain (%s)', async (_kind, model) => {
  const { value } = await newKey(gateway, { user_path: '/open-responses' });
  const socket = await openSocket(gateway.url, value);
  const headers = { authorization: `Bearer ${value}` };
  const messages = [
    { role: 'user', content: 'My name is Ada.' },
    { role: 'assistant', content: 'Noted.' },
  ];
  const compacted = await json(await gateway.post('/v1/responses/compact', { model, input: messages }, { headers }));
  const input = [...compacted.output, { role: 'user', content: 'What is my name?' }];
  const { id } = await completed(socket, { model, store: false, input });
  await completed(socket, { model, store: false, previous_response_id: id, input: 'And again?' });
});
