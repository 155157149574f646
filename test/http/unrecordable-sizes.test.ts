/** Requests and answers that one event of the log cannot hold, on a log whose events are at most 2.25 MiB. */
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { dataOf, errorOf, eventsOfExchange, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

const LIMIT = 2.25 * 1024 * 1024;
let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return {
    simulated: false,
    env: {
      ...{ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk-of-all' },
      ...{ DEEPSEEK_BASE_URL: scripted.url, DEEPSEEK_API_KEY: 'sk-of-all' },
      LOG_URL: `memory:${LIMIT}`,
      ...{ REQUEST_MAX_ENTRIES: '50000', REQUEST_MAX_OBJECTS: '100000', RETRY_MAX_RETRIES: '0' },
    },
  };
}, 2);
afterAll(() => scripted.close());

const usage = { input_tokens: 3, output_tokens: 2, total_tokens: 5 };
/** Two of them are larger than an event. */
const half = 'x'.repeat(1_250_000);
/** Each is 40 bytes in a request, and 145 in the form in which the response stores it. */
const items = Array.from({ length: 10_000 }, () => ({ role: 'user', content: 'Say hello to us.' }));

let calls = 0;
function response(text: string, ids = 'resp_big') {
  const item = { type: 'message', id: 'msg_1', role: 'assistant', content: [{ type: 'output_text', text }] };
  return { id: ids, object: 'response', status: 'completed', model: 'scripted', output: [item], usage };
}

const message = (content: string) => ({
  id: 'c',
  choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
});

function answers(text: string, isStream = false): void {
  calls = 0;
  const delta = {
    type: 'response.output_text.delta',
    item_id: 'msg_1',
    output_index: 0,
    content_index: 0,
    delta: 'xx',
  };
  const events = [
    { type: 'response.created', response: { ...response(''), status: 'in_progress', output: [] } },
    delta,
    { type: 'response.completed', response: response(text) },
  ];
  scripted.script(({ path }, reply) => {
    calls += 1;
    reply.writeHead(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' });
    if (isStream) reply.end(events.map((one) => `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`).join(''));
    else reply.end(JSON.stringify(path.endsWith('/responses') ? response(text) : message(text)));
  });
}

const endOf = async (id: string) => {
  const events = await eventsOfExchange(gateway, id);
  const types = events.map(({ type }) => type);
  return { types, end: events.find(({ type }) => type === 'exchange.failed')?.data, events };
};

describe.each(['openai', 'deepseek'])(
  'an answer of %s that the log cannot hold together with its request',
  (provider) => {
    it('is 502, charged, and on record', async () => {
      answers(half);
      const answer = await gateway.post('/v1/responses', { model: `${provider}/scripted`, input: half });
      const error = await errorOf(answer, 502);
      expect(error).toMatchObject({ code: 'answer_too_large', provider, type: 'provider_error' });
      expect(error.message).toMatch(/2359296 bytes/);
      const { types, end, events } = await endOf(exchangeOf(answer));
      expect(end).toMatchObject({ status: 502, code: 'answer_too_large', reason: 'provider_error' });
      expect(events.find(({ type }) => type === 'usage.recorded')?.data).toMatchObject({
        inputTokens: 3,
        outputTokens: 2,
      });
      expect(types).toContain('chunk.received');
      expect(types.filter((type) => type.startsWith('exchange.'))).toHaveLength(1);
      expect(calls).toBe(1);
    });
  },
);

describe('a response that the log cannot hold', () => {
  it('ends its stream with an error; it is not stored, and charged', async () => {
    answers(half, true);
    const answer = await gateway.post('/v1/responses', { model: 'openai/scripted', input: half, stream: true });
    const last = dataOf(await answer.text()).slice(-2);
    expect(last.map(({ type }) => type)).toEqual(['error', 'response.failed']);
    expect(last[1]?.response.error).toMatchObject({ message: expect.stringContaining('2359296 bytes') });
    const { end, types } = await endOf(exchangeOf(answer));
    expect(end).toMatchObject({ status: 200, code: 'answer_too_large', reason: 'stream_broken' });
    expect(types).toContain('usage.recorded');
    expect((await gateway.fetch('/v1/responses/resp_big')).status).toBe(404);
  });

  it('fails in the background', async () => {
    answers(half);
    const body = { model: 'deepseek/scripted', input: half, background: true };
    const queued = await json(await gateway.post('/v1/responses', body));
    expect(queued.status).toBe('queued');
    const { end } = await endOf(queued.id.replace(/^resp_(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'));
    expect(end).toMatchObject({ code: 'answer_too_large' });
    const failed = await json(await gateway.fetch(`/v1/responses/${queued.id}`));
    expect(failed).toMatchObject({ status: 'failed', error: { message: expect.stringContaining('2359296 bytes') } });
  });
});

describe('a request whose input the log cannot hold', () => {
  it.each([
    ['stored', {}],
    ['in the background', { background: true }],
  ])('is 413 before a provider is called: %s', async (_name, more) => {
    answers('Hello.');
    const answer = await gateway.post('/v1/responses', { model: 'deepseek/scripted', input: items, ...more });
    const error = await errorOf(answer, 413);
    expect(error).toMatchObject({ code: 'request_too_large', param: 'input', type: 'invalid_request_error' });
    expect(error.message).toMatch(/\d{7} bytes.* 2359296 bytes.*"store": false/);
    expect(calls).toBe(0);
    const { types } = await endOf(exchangeOf(answer));
    expect(types).toContain('request.refused');
  });

  it('is served when nothing of it is stored', async () => {
    answers('Hello.');
    const body = { model: 'deepseek/scripted', input: items, store: false };
    expect((await gateway.post('/v1/responses', body)).status).toBe(200);
  });

  it('is 413 when only the earlier turns make it too large', async () => {
    answers('Hello.');
    let previous_response_id: string | undefined;
    let answer: Response | undefined;
    for (let turn = 0; turn < 4; turn++) {
      const body = { model: 'deepseek/scripted', input: half, previous_response_id };
      answer = await gateway.post('/v1/responses', body);
      if (answer.status !== 200) break;
      previous_response_id = (await json(answer)).id;
    }
    expect(calls).toBeGreaterThan(0);
    expect(await errorOf(answer ?? new Response(), 413)).toMatchObject({ code: 'request_too_large' });
  });
});

describe('a conversation', () => {
  it('does not get a turn that the log cannot hold', async () => {
    answers(half);
    const { id } = await json(await gateway.post('/v1/conversations', {}));
    const body = { model: 'deepseek/scripted', input: half, conversation: id, store: false };
    expect(await errorOf(await gateway.post('/v1/responses', body), 502)).toMatchObject({ code: 'answer_too_large' });
    const { data } = await json(await gateway.fetch(`/v1/conversations/${id}/items`));
    expect(data).toEqual([]);
  });
});
