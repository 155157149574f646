/** Responses on a WebSocket whose provider has WebSockets, too: one connection for each client, and HTTP where there is none. */
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import type { Answered } from '../support/answered.ts';
import { startTestGateway } from '../support/gateway.ts';
import { guard, saveGuardrail, withGuardrails } from '../support/guarded.ts';
import { newKey } from '../support/managed-keys.ts';
import { isEnd, openSocket, type TestSocket } from '../support/response-socket.ts';
import { saved } from '../support/several-providers.ts';
import { createSocketProvider, OVER_SOCKET, type ProviderConnection } from '../support/socket-provider.ts';
import { eventsUntil, withGateway } from '../support/with-gateway.ts';

const KEY = 'sk-of-the-provider';
const model = 'openai/simulated-small';
const input = 'The word is cobalt.';
const provider = createSocketProvider({ apiKey: KEY });
const gateway = withGateway(async () => {
  const url = await provider.listen();
  return {
    register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: KEY }),
    env: { RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false', ...withGuardrails },
  };
});
const open: TestSocket[] = [];
afterEach(() => {
  for (const { socket } of open.splice(0)) socket.close();
  provider.script(undefined);
  provider.simulated.control.clear();
});
afterAll(() => provider.close());

/** Of one client, with the connections that the provider gets from then on. */
async function client(path = '/native') {
  const { value, id } = await newKey(gateway, { user_path: path });
  const socket = await openSocket(gateway.url, value);
  open.push(socket);
  const before = provider.connections.length;
  const requests = provider.simulated.requests.length;
  return {
    socket,
    id,
    connections: () => provider.connections.slice(before),
    /** Whether each request for a response came over a WebSocket. */
    overSocket: () =>
      provider.simulated.requests
        .slice(requests)
        .filter(({ path: to }) => to === '/v1/responses')
        .map(({ headers }) => headers[OVER_SOCKET] === 'true'),
  };
}

async function completed(socket: TestSocket, body: object): Promise<Answered> {
  const end = await socket.turn({ model, ...body });
  expect(end, JSON.stringify(end)).toMatchObject({ type: 'response.completed' });
  return end.response;
}

const only = (connections: readonly ProviderConnection[]): ProviderConnection => {
  const [connection] = connections;
  if (connection === undefined || connections.length !== 1) throw new Error(`${connections.length} connections`);
  return connection;
};

describe('turns of one client', () => {
  it('share one connection, whose memory has what is not stored', async () => {
    const { socket, connections, overSocket } = await client();
    const first = await completed(socket, { store: false, input });
    const second = await completed(socket, { store: false, previous_response_id: first.id, input: 'Which?' });
    const third = await completed(socket, { previous_response_id: second.id, input: 'Again?' });
    expect(third).toMatchObject({ previous_response_id: second.id, id: expect.any(String) });
    const { messages, headers } = only(connections());
    expect(messages).toMatchObject([
      { type: 'response.create', model: 'simulated-small', input },
      { type: 'response.create', previous_response_id: first.id, input: 'Which?' },
      { type: 'response.create', previous_response_id: second.id, input: 'Again?' },
    ]);
    expect(messages.every((message) => !('stream' in message))).toBe(true);
    expect(headers.authorization).toBe(`Bearer ${KEY}`);
    expect(overSocket()).toEqual([true, true, true]);
    expect((await gateway.fetch(`/v1/responses/${third.id}`)).status).toBe(200);
  });

  it('are recorded and charged as over HTTP, without a credential', async () => {
    const { socket, id } = await client('/native/recorded');
    const { usage } = await completed(socket, { store: false, input });
    const events = await eventsUntil(gateway, 'user_path=/native/recorded', ({ type }) => type === 'usage.recorded');
    const ofKey = events.filter(({ actor }) => actor === `key:${id}`);
    expect(ofKey.map(({ type }) => type)).toEqual(
      expect.arrayContaining(['request.received', 'attempt.started', 'chunk.received', 'exchange.completed']),
    );
    const [recorded] = ofKey.filter(({ type }) => type === 'usage.recorded');
    expect(recorded?.data).toMatchObject({ inputTokens: usage.input_tokens, outputTokens: usage.output_tokens });
    expect(JSON.stringify(ofKey)).not.toContain(KEY);
  });

  it('end the connection with the client', async () => {
    const { socket, connections } = await client();
    await completed(socket, { input });
    socket.socket.close();
    await only(connections()).closed;
  });

  it('use HTTP beside a turn that has the connection', async () => {
    const { socket, connections, overSocket } = await client();
    const held = { model, input, simulate: { holdAfterChunks: 2 } };
    socket.send({ type: 'response.create', stream_id: 'a', ...held });
    await socket.until(({ type }) => type === 'response.created');
    await completed(socket, { input, stream_id: 'b' });
    provider.simulated.control.release();
    expect(await socket.until(isEnd)).toMatchObject({ type: 'response.completed', stream_id: 'a' });
    expect(overSocket()).toEqual([true, false]);
    only(connections());
  });
});

describe('a connection that ends', () => {
  it('between turns is replaced by HTTP for one turn, with the turns before', async () => {
    const { socket, connections, overSocket } = await client();
    const first = await completed(socket, { store: false, input });
    only(connections()).socket.close(1001);
    await only(connections()).closed;
    // The gateway has read the close when it answers this.
    await completed(socket, { model: 'llamacpp/simulated-small', input: 'Hello' });
    const second = await completed(socket, { store: false, previous_response_id: first.id, input: 'Which?' });
    const sent = provider.simulated.requests.at(-1)?.body ?? '';
    for (const text of [input, 'Which?']) expect(sent).toContain(text);
    await completed(socket, { store: false, previous_response_id: second.id, input: 'Again?' });
    expect(overSocket()).toEqual([true, false, true]);
    expect(connections()).toHaveLength(2);
  });

  it('before the answer begins is replaced by HTTP in the same turn', async () => {
    const { socket, overSocket } = await client('/native/before');
    const first = await completed(socket, { store: false, input });
    provider.script((_message, connection) => connection.terminate());
    await completed(socket, { store: false, previous_response_id: first.id, input: 'Which?' });
    const sent = provider.simulated.requests.at(-1)?.body ?? '';
    for (const text of [input, 'Which?']) expect(sent).toContain(text);
    expect(overSocket()).toEqual([true, false]);
    let ends = 0;
    const events = await eventsUntil(
      gateway,
      'user_path=/native/before',
      ({ type }) => type === 'exchange.completed' && ++ends === 2,
    );
    const attempts = events.filter(({ type }) => type === 'attempt.started' || type === 'attempt.failed');
    expect(attempts.slice(1).map(({ type, data }) => [type, data.attempt, data.kind])).toEqual([
      ['attempt.started', 1, 'primary'],
      ['attempt.failed', 1, undefined],
      ['attempt.started', 2, 'retry'],
    ]);
    expect(events.filter(({ type }) => type === 'history.replayed')).toHaveLength(1);
  });

  it('in the middle of an answer fails that response, and the next turn is served', async () => {
    const { socket, overSocket } = await client();
    provider.script((_message, connection) => {
      connection.send(
        JSON.stringify({ type: 'response.created', response: { id: 'resp_cut', status: 'in_progress' } }),
      );
      connection.close(1011);
    });
    expect(await socket.turn({ model, input })).toMatchObject({
      type: 'response.failed',
      response: { id: 'resp_cut', error: { code: 'stream_incomplete' } },
    });
    provider.script(undefined);
    await completed(socket, { input });
    expect(overSocket()).toEqual([false]);
  });

  it('is ended when its turn is cancelled, and the next turn has another', async () => {
    const { socket, connections, overSocket } = await client();
    socket.send({ type: 'response.create', model, input, simulate: { holdAfterChunks: 2 } });
    await socket.until(({ type }) => type === 'response.created');
    socket.send({ type: 'response.cancel' });
    expect(await socket.until(isEnd)).toMatchObject({ error: { code: 'response_cancelled' } });
    await only(connections()).closed;
    await completed(socket, { input });
    expect(overSocket()).toEqual([true, true]);
  });
});

describe('an error of the provider', () => {
  it('as the first message is one as over HTTP: status, code, and the time to wait', async () => {
    const { socket } = await client();
    // The credential is paused for this model.
    const limited = { model: 'openai/simulated-large', input, simulate: { status: 429, retryAfter: 7 } };
    expect(await socket.turn(limited)).toMatchObject({
      ...{ type: 'error', status: 429, headers: { 'retry-after': '7' } },
      error: { type: 'rate_limit_error' },
    });
  });

  it('leads to the next target of a virtual model', async () => {
    const targets = ['openai', 'llamacpp'].map((name) => ({ provider: name, model: 'simulated-small' }));
    await saved(gateway, { source: 'either', targets, strategy: 'failover' });
    const { socket, overSocket } = await client();
    provider.simulated.control.next({ status: 500 }, { path: '/v1/responses' });
    const asked = gateway.simulated.requests.length;
    await completed(socket, { model: 'either', input });
    expect(overSocket()).toEqual([true]);
    expect(gateway.simulated.requests.slice(asked)).toMatchObject([{ path: '/v1/responses' }]);
  });

  it('does not end the connection', async () => {
    const { socket, connections, overSocket } = await client();
    expect(await socket.turn({ model, input, simulate: { status: 400 } })).toMatchObject({
      type: 'error',
      status: 400,
    });
    await completed(socket, { input });
    only(connections());
    expect(overSocket()).toEqual([true, true]);
  });

  it('that its memory has lost a response leads to the whole input', async () => {
    const { socket, overSocket } = await client();
    const first = await completed(socket, { store: false, input });
    const error = { code: 'previous_response_not_found', message: 'Not found.', param: 'previous_response_id' };
    provider.script((_message, connection) => connection.send(JSON.stringify({ type: 'error', status: 400, error })));
    await completed(socket, { store: false, previous_response_id: first.id, input: 'Which?' });
    expect(provider.simulated.requests.at(-1)?.body).toContain(input);
    expect(overSocket()).toEqual([true, false]);
  });

  it('that the connection is too old leads to HTTP', async () => {
    const { socket, connections, overSocket } = await client();
    const error = { code: 'websocket_connection_limit_reached', message: 'Create a new one.' };
    provider.script((_message, connection) => connection.send(JSON.stringify({ type: 'error', status: 400, error })));
    await completed(socket, { input });
    await only(connections()).closed;
    expect(overSocket()).toEqual([false]);
  });
});

describe('messages of the provider', () => {
  it('are events in every form: over several lines, with the type at any place, of an unknown type', async () => {
    const { socket } = await client();
    const response = { id: 'resp_scripted', object: 'response', status: 'completed', output: [] };
    provider.script((_message, connection) => {
      connection.send(JSON.stringify({ type: 'response.created', response }, null, 2));
      connection.send(JSON.stringify({ sequence_number: 1, type: 'vendor.event', note: 'line\nbreak' }));
      connection.send(JSON.stringify({ sequence_number: 2, response, type: 'response.completed' }, null, 1));
    });
    expect(await socket.turn({ model, input, store: false })).toMatchObject({ response: { id: 'resp_scripted' } });
    expect(socket.messages.map(({ type }) => type)).toEqual(['response.created', 'vendor.event', 'response.completed']);
    expect(socket.messages[1]).toMatchObject({ note: 'line\nbreak' });
  });

  it.each(['"stream_id"', '"stream\\u005fid"'])(
    'have the stream of the client, also with %s of their own',
    async (name) => {
      const { socket } = await client();
      const response = { id: 'resp_scripted', object: 'response', status: 'completed', output: [] };
      for (const stream of [undefined, 'a']) {
        provider.script((_message, connection) => {
          for (const type of ['response.created', 'response.completed']) {
            connection.send(`{"type":"${type}",${name}:"of-the-provider","response":${JSON.stringify(response)}}`);
          }
        });
        const begin = socket.messages.length;
        await socket.turn({ model, input, store: false, stream_id: stream });
        expect(socket.messages.slice(begin).map(({ stream_id: given }) => given)).toEqual([stream, stream]);
      }
    },
  );

  it('must be text', async () => {
    const { socket, overSocket } = await client();
    provider.script((_message, connection) => connection.send(Buffer.from('{}'), { binary: true }));
    await completed(socket, { input });
    expect(overSocket()).toEqual([false]);
  });
});

describe('response.steer', () => {
  const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
  const response = (id: string, status: string, more: object = {}) => ({
    response: { id, object: 'response', status, output: [], usage, ...more },
  });
  const steered = { status: 'incomplete', incomplete_details: { reason: 'steered' } };
  const steer = { type: 'response.steer', previous_response_id: 'resp_1', input: 'Shorter.' };
  const isFailure = ({ type }: Answered) => type === 'response.steer.failed';

  /** @param answers to the input that steers */
  function scriptAnswers(answers: (send: (event: object) => void, socket: ProviderConnection['socket']) => void): void {
    provider.script((message, connection) => {
      const send = (event: object) => connection.send(JSON.stringify(event));
      if (message.type === 'response.create') send({ type: 'response.created', ...response('resp_1', 'in_progress') });
      else answers(send, connection);
    });
  }

  async function begun(socket: TestSocket): Promise<void> {
    socket.send({ type: 'response.create', stream_id: 'a', model, input, store: false });
    await socket.until(({ type }) => type === 'response.created');
  }

  it('leads to the response that the provider begins by itself, as an exchange of its own', async () => {
    const { socket, id, connections } = await client('/native/steered');
    scriptAnswers((send) => {
      send({ type: 'response.steer.accepted', sequence_number: 1, steer: { id: 's', previous_response_id: 'resp_1' } });
      send({ type: 'response.incomplete', ...response('resp_1', 'incomplete', steered) });
      send({ type: 'response.created', ...response('resp_2', 'in_progress') });
      send({ type: 'response.completed', ...response('resp_2', 'completed') });
    });
    await begun(socket);
    socket.send(steer);
    await socket.until(({ type }) => type === 'response.completed');
    expect(socket.messages.map(({ type, stream_id: stream }) => [type, stream])).toEqual([
      ['response.created', 'a'],
      ['response.steer.accepted', 'a'],
      ['response.incomplete', 'a'],
      ['response.created', 'a'],
      ['response.completed', 'a'],
    ]);
    expect(only(connections()).messages).toMatchObject([{ type: 'response.create' }, steer]);
    let ends = 0;
    const isLast = ({ type }: { type: string }) => type === 'usage.recorded' && ++ends === 2;
    const events = await eventsUntil(gateway, 'user_path=/native/steered', isLast);
    const ofKey = events.filter(({ actor }) => actor === `key:${id}`);
    expect(ofKey.filter(({ type }) => type === 'request.received')).toHaveLength(2);
    expect(ofKey.filter(({ type }) => type === 'exchange.completed')).toHaveLength(2);
  });

  it.each([
    [{ type: 'response.steer.failed', error: { code: 'invalid_input', message: 'No.' } }, 'invalid_input'],
    [{ type: 'error', status: 400, error: { code: 'unknown', message: 'No.' } }, undefined],
  ])('is refused with the input by %j, and the response continues', async (refusal, code) => {
    const { socket } = await client();
    scriptAnswers((send) => {
      if (code === undefined) send({ type: 'response.completed', ...response('resp_1', 'completed') });
      send(refusal);
      if (code !== undefined) send({ type: 'response.completed', ...response('resp_1', 'completed') });
    });
    await begun(socket);
    socket.send(steer);
    expect(await socket.until(isFailure)).toMatchObject({
      steer: { previous_response_id: 'resp_1', input: 'Shorter.' },
      error: { type: 'invalid_request_error', ...(code !== undefined && { code }) },
    });
    expect(socket.messages.concat(await lastOf(socket))).toContainEqual(
      expect.objectContaining({ type: 'response.completed' }),
    );
  });

  /** The end of the first response, if it is still to come. */
  async function lastOf(socket: TestSocket): Promise<Answered[]> {
    const ended = socket.messages.some(({ type }) => type === 'response.completed');
    return ended ? [] : [await socket.until(({ type }) => type === 'response.completed')];
  }

  it('refuses members that have no effect', async () => {
    const { socket } = await client();
    scriptAnswers((send) => send({ type: 'response.completed', ...response('resp_1', 'completed') }));
    await begun(socket);
    socket.send({ ...steer, max_output_tokens: 5 });
    expect(await socket.until(({ type }) => type === 'error')).toMatchObject({
      status: 400,
      error: { code: 'unsupported_parameter', param: 'max_output_tokens' },
    });
    socket.send(steer);
    expect(await socket.until(({ type }) => type === 'response.completed')).toMatchObject({ stream_id: 'a' });
  });

  it('is passed on when it waits for results of tools', async () => {
    const { socket } = await client();
    const pending = {
      type: 'response.steer.pending',
      reason: 'waiting_for_required_input',
      required_input: [{ a: 1 }],
    };
    scriptAnswers((send) => {
      send({ type: 'response.completed', ...response('resp_1', 'completed') });
      send(pending);
    });
    await begun(socket);
    socket.send(steer);
    expect(await socket.until(({ type }) => type === pending.type)).toMatchObject({ ...pending, stream_id: 'a' });
  });

  it('fails when the connection ends, and takes one input at a time', async () => {
    const { socket } = await client();
    const arrived = Promise.withResolvers<ProviderConnection['socket']>();
    scriptAnswers((_send, connection) => arrived.resolve(connection));
    await begun(socket);
    socket.send(steer);
    socket.send({ ...steer, input: 'Longer.' });
    expect(await socket.until(isFailure)).toMatchObject({
      steer: { input: 'Longer.' },
      error: { code: 'too_many_pending_steers' },
    });
    (await arrived.promise).terminate();
    expect(await socket.until(isFailure)).toMatchObject({ steer: { input: 'Shorter.' } });
  });
});

describe('guardrails', () => {
  it('change what the provider gets over its WebSocket: input, turns before, and input that steers', async () => {
    await saveGuardrail(gateway, { name: 'towers', type: 'string_replace', config: { rules: 'lighthouse => tower' } });
    await guard(gateway, '/native/guarded', [{ ref: 'towers' }]);
    const { socket, connections } = await client('/native/guarded');
    const first = await completed(socket, { store: false, input: 'A lighthouse.' });
    const next = { store: false, previous_response_id: first.id, input: 'Another lighthouse.' };
    socket.send({ type: 'response.create', model, ...next, simulate: { holdAfterChunks: 2 } });
    const { response } = await socket.until(({ type }) => type === 'response.created');
    socket.send({ type: 'response.steer', previous_response_id: response.id, input: 'A lighthouse, red.' });
    const { messages } = only(connections());
    await expect.poll(() => messages.length).toBe(3);
    expect(JSON.stringify(messages)).not.toContain('lighthouse');
    expect(messages[1]?.input).toHaveLength(3);
    expect(messages[2]).toMatchObject({ type: 'response.steer' });
    provider.simulated.control.release();
  });
});

describe('WEBSOCKET_TO_PROVIDERS=false', () => {
  it('leads to HTTP', async () => {
    const url = await provider.listen();
    const other = await startTestGateway({
      register: (own) => ({ LLAMACPP_BASE_URL: own, OPENAI_BASE_URL: url, OPENAI_API_KEY: KEY }),
      env: { WEBSOCKET_TO_PROVIDERS: 'false' },
    });
    const socket = await openSocket(other.url);
    const before = provider.connections.length;
    await completed(socket, { input });
    expect(provider.connections).toHaveLength(before);
    socket.socket.close();
    await other.close();
  });
});

describe('a handshake without an answer', () => {
  it('ends with its turn when that is cancelled, and nothing is charged', async () => {
    const { socket, id, overSocket } = await client('/native/silent');
    provider.refuse('silent');
    socket.send({ type: 'response.create', model, input });
    await expect.poll(() => provider.silent.length).toBe(1);
    socket.send({ type: 'response.cancel' });
    expect(await socket.until(isEnd)).toMatchObject({ error: { code: 'response_cancelled' } });
    await expect.poll(() => provider.silent[0]?.destroyed).toBe(true);
    provider.refuse(undefined);
    await completed(socket, { input });
    expect(overSocket()).toEqual([true]);
    const events = await eventsUntil(gateway, 'user_path=/native/silent', ({ type }) => type === 'exchange.completed');
    const first = events.find(({ actor, type }) => actor === `key:${id}` && type === 'request.received');
    const types = events.filter(({ stream }) => stream === first?.stream).map(({ type }) => type);
    expect(types).toContain('attempt.started');
    expect(types).toContain('client.disconnected');
    expect(types).not.toContain('usage.recorded');
  });
});

describe('a refused connection', () => {
  it('leads to HTTP at once, and none is tried for a while', async () => {
    const { socket, connections, overSocket } = await client();
    provider.refuse(403);
    await completed(socket, { input });
    provider.refuse(undefined);
    await completed(socket, { input });
    expect(connections()).toHaveLength(0);
    expect(overSocket()).toEqual([false, false]);
  });
});
