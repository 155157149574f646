import { describe, expect, it } from 'vitest';
import type { Fault } from '../../infra/simulated-provider/fault.ts';
import { messagesDialect } from '../../src/commands/exchange/dialects/messages/messages-dialect.ts';
import { createFrameSplitter } from '../../src/providers/stream-frames.ts';
import type { Message } from '../../src/providers/translate/messages-to-chat/message-object.ts';
import type { Answered } from '../support/answered.ts';
import { startTestGateway } from '../support/gateway.ts';
import { both, native, translated, weatherTool, withMessageKinds } from '../support/message-kinds.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { eventsOf, eventsOfExchange, exchangeOf, json, user } from '../support/with-gateway.ts';
import { addedUp } from '../translate/message-shape.ts';

const { gateway, anthropic, post, create, stream } = withMessageKinds();
const hello = user('Reply with exactly: hello');

describe.each(both)('POST /v1/messages, %s', (_kind, model) => {
  it('answers with a message', async () => {
    expect(await create({ model, messages: hello })).toMatchObject({
      id: expect.stringMatching(/^msg_[0-9a-f]+$/),
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'hello' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
      usage: { input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
    });
  });

  it('streams the same message as without streaming', async () => {
    const requestBody = {
      model,
      messages: user('Tell me something.'),
      thinking: { type: 'enabled', budget_tokens: 2000 },
    };
    const whole = await create({ ...requestBody, max_tokens: 4000 });
    const { text, events } = await stream({ ...requestBody, max_tokens: 4000 });
    for (const { event, data } of eventsOf(text)) expect(event).toBe(JSON.parse(data).type);
    const message = addedUp(events.filter(({ type }) => type !== 'ping'));
    expect(message.content).toEqual(whole.content);
    expect(message.content.map(({ type }) => type)).toEqual(['thinking', 'text']);
    expect(message.usage.output_tokens).toBe(whole.usage.output_tokens);
    expect(message.stop_reason).toBe('end_turn');
  });

  it('runs a loop with tools', async () => {
    for (const say of [create, streamedMessage]) {
      const messages: object[] = user('What is the weather in Paris and Rome?');
      const requestBody = { model, messages, tools: [weatherTool] };
      const first = await say(requestBody);
      expect(first).toMatchObject({
        stop_reason: 'tool_use',
        content: [
          { type: 'tool_use', name: 'get_weather', input: { city: 'Paris' } },
          { type: 'tool_use', name: 'get_weather', input: { city: 'Rome' } },
        ],
      });
      const results = first.content.map(({ id, input }: { id: string; input: { city: string } }) => ({
        type: 'tool_result',
        tool_use_id: id,
        content: `sunny in ${input.city}`,
      }));
      messages.push({ role: 'assistant', content: first.content }, { role: 'user', content: results });
      const second = await say(requestBody);
      expect(second).toMatchObject({
        stop_reason: 'end_turn',
        content: [{ text: expect.stringContaining('sunny in Paris; sunny in Rome') }],
      });
    }
  });

  it('stops at max_tokens', async () => {
    const short = { model, max_tokens: 2, messages: user('Tell me something.') };
    expect(await create(short)).toMatchObject({ stop_reason: 'max_tokens' });
    expect(await streamedMessage(short)).toMatchObject({ stop_reason: 'max_tokens' });
  });

  it('reads the system prompt as a string and as blocks', async () => {
    const said = 'My name is Ada.';
    for (const system of [said, [{ type: 'text', text: said, cache_control: { type: 'ephemeral' } }]]) {
      await create({ model, system, messages: hello });
      const provider = model === native ? anthropic : gateway.simulated;
      expect(provider.requests.at(-1)?.body).toContain(said);
    }
  });

  it('records the request and its cost', async () => {
    const { exchange } = await stream({ model, messages: hello });
    const events = await eventsOfExchange(gateway, exchange);
    expect(events[0]).toMatchObject({ type: 'request.received', data: { dialect: 'messages', model, stream: true } });
    const ends = Object.fromEntries(events.map(({ type, data }) => [type, data]));
    expect(ends['attempt.started']).toMatchObject({ dialect: model === native ? 'messages' : 'chat' });
    expect(ends['exchange.completed']).toMatchObject({ finishReason: 'end_turn' });
    expect(ends['usage.recorded']).toMatchObject({
      endpoint: '/v1/messages',
      source: 'provider',
      inputTokens: expect.any(Number),
      outputTokens: 1,
    });
  });

  it('accepts the key as x-api-key and as a bearer token', async () => {
    const body = JSON.stringify({ model, max_tokens: 10, messages: hello });
    const answer = await gateway.fetch('/v1/messages', { method: 'POST', body });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('request-id')).toBe(answer.headers.get('x-request-id'));
  });
});

/** What Claude Code sends, shortened. */
const claudeCode = {
  max_tokens: 128_000,
  stream: true,
  system: [
    { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1.329; cc_entrypoint=cli; cch=4f1a;' },
    { type: 'text', text: 'You are a coding agent.', cache_control: { type: 'ephemeral' } },
    { type: 'text', text: 'Here is where you are.', cache_control: { type: 'ephemeral', ttl: '1h' } },
  ],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: '<system-reminder>Be kind.</system-reminder>' },
        { type: 'text', text: 'Reply with exactly: hello', cache_control: { type: 'ephemeral' } },
      ],
    },
    { role: 'system', content: [{ type: 'text', text: '# Environment' }] },
  ],
  tools: [{ ...weatherTool, eager_input_streaming: true }],
  thinking: { type: 'adaptive', display: 'omitted' },
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  output_config: { effort: 'high' },
  metadata: { user_id: JSON.stringify({ device_id: 'd'.repeat(64), account_uuid: '', session_id: 'a-b-c' }) },
};
const claudeHeaders = {
  authorization: 'Bearer test-master-key',
  'anthropic-beta': 'claude-code-20250219,interleaved-thinking-2025-05-14',
  'x-claude-code-session-id': 'a-b-c',
};

describe("Claude Code's request", () => {
  it.each(both)('is answered, %s', async (_kind, model) => {
    // The simulated Anthropic knows two roles only.
    const messages = claudeCode.messages.filter(({ role }) => model === translated || role !== 'system');
    const answer = await post({ ...claudeCode, messages, model }, claudeHeaders, '/v1/messages?beta=true');
    const events = eventsOf(await answer.text()).map(({ data }) => JSON.parse(data));
    const message = addedUp(events.filter(({ type }) => type !== 'ping'));
    expect(message.content.at(-1)).toEqual({ type: 'text', text: 'hello' });
    expect(message.content[0]).toMatchObject({ type: 'thinking', thinking: '', signature: expect.stringMatching(/./) });
  });

  it('reaches a translated provider as a chat request, with its reasoning', async () => {
    await (await post({ ...claudeCode, model: translated }, claudeHeaders)).text();
    const requestBody = JSON.parse(gateway.lastProviderRequest().body);
    expect(requestBody).toEqual({
      model: 'simulated-small',
      max_tokens: 128_000,
      stream: true,
      stream_options: { include_usage: true },
      messages: [
        { role: 'system', content: 'You are a coding agent.\n\nHere is where you are.\n\n# Environment' },
        {
          role: 'user',
          content: [
            { type: 'text', text: '<system-reminder>Be kind.</system-reminder>' },
            { type: 'text', text: 'Reply with exactly: hello' },
          ],
        },
      ],
      tools: [
        {
          type: 'function',
          function: {
            name: 'get_weather',
            description: weatherTool.description,
            parameters: weatherTool.input_schema,
          },
        },
      ],
      reasoning_effort: 'high',
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  it('returns hidden reasoning to a provider that requires it', async () => {
    const requestBody = { ...claudeCode, model: translated, tools: [] };
    const first = addedUp((await stream(requestBody)).events);
    const messages = [...requestBody.messages, { role: 'assistant', content: first.content }, ...user('And now?')];
    await stream({ ...requestBody, messages });
    const { messages: sent } = JSON.parse(gateway.lastProviderRequest().body);
    expect(sent[2]).toMatchObject({
      role: 'assistant',
      content: 'hello',
      reasoning_content: expect.stringMatching(/\w+ \w+/),
    });
  });
});

describe.each(both)('a stream of messages, %s', (_kind, model) => {
  it.each([
    [{ splitEvery: 1 }],
    [{ splitEvery: 7, crlf: true }],
    [{ coalesce: true }],
    [{ comments: true }],
    [{ tokensPerChunk: 3 }],
  ] as [Fault][])('has the same content however it is split: %j', async (fault) => {
    const requestBody = {
      model,
      messages: user('Think: what is the weather in Paris and Rome?'),
      tools: [weatherTool],
    };
    const usual = addedUp((await stream(requestBody)).events.filter(({ type }) => type !== 'ping'));
    (model === native ? anthropic : gateway.simulated).control.next(fault);
    const odd = addedUp((await stream(requestBody)).events.filter(({ type }) => type !== 'ping'));
    const said = ({ content }: Message) => content.map((block) => ({ ...block, id: '' }));
    expect(said(odd)).toEqual(said(usual));
    expect(odd.usage).toEqual(usual.usage);
  });

  it("is the same when the provider's events are translated again from the record", async () => {
    const thinking = { type: 'enabled', budget_tokens: 2000 };
    const body = { model, max_tokens: 4000, stream: true, messages: user('Tell me something.'), thinking };
    const answer = await post(body);
    const text = await answer.text();
    const exchangeId = exchangeOf(answer);
    const events = await eventsOfExchange(gateway, exchangeId);
    const {
      provider,
      providerType,
      model: used,
      dialect,
    } = events.find(({ type }) => type === 'attempt.started')?.data ?? {};
    const read = messagesDialect.read(body);
    if (!read.ok) throw read.refusal;
    const attempt = { provider: { name: provider }, providerType, model: used, dialect };
    const past = { parsedRequest: read.parsedRequest, clientHeaders: {}, exchangeId, createdAt: 1, ...attempt };
    const stream = messagesDialect.streamOfRecorded({ ...past, historyReplayed: false, now: () => 1 });
    const splitter = createFrameSplitter({ maxFrameBytes: 1 << 20 });
    const pieces: Buffer[] = [];
    for (const { type, body: chunk } of events) {
      if (type !== 'chunk.received') continue;
      for (const frame of splitter.push(Buffer.from(String(chunk))))
        pieces.push(stream.frame(frame).bytes ?? Buffer.of());
    }
    pieces.push(stream.finish().bytes ?? Buffer.of());
    expect(Buffer.concat(pieces).toString()).toBe(text);
  });
});

describe('a translated message', () => {
  it('has an id made from the id of its exchange, the same in every event', async () => {
    const answer = await post({ model: translated, max_tokens: 10, messages: hello });
    expect((await json(answer)).id).toBe(`msg_${exchangeOf(answer).replaceAll('-', '')}`);
    const { events, exchange } = await stream({ model: translated, messages: hello });
    expect(events[0].message.id).toBe(`msg_${exchange.replaceAll('-', '')}`);
  });

  it('is recorded as the client received it', async () => {
    const answer = await post({ model: translated, max_tokens: 10, messages: hello });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'exchange.completed')?.body).toBe(await answer.text());
  });

  it('keeps integers beyond the precision of JavaScript', async () => {
    const id = '9007199254740993123';
    const body = `{"model":"${translated}","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"id":${id}}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`;
    await gateway.post('/v1/messages', body);
    expect(JSON.parse(gateway.lastProviderRequest().body).messages[1].tool_calls[0].function.arguments).toBe(
      `{"id":${id}}`,
    );
  });

  it('keeps them in an answer as well', async () => {
    const scripted = await startScriptedProvider();
    const call = `{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\\"id\\":9007199254740993123}"}}`;
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(
        `{"choices":[{"index":0,"message":{"role":"assistant","tool_calls":[${call}]},"finish_reason":"tool_calls"}]}`,
      );
    });
    const other = await startTestGateway({ simulated: false, env: { LLAMACPP_BASE_URL: scripted.url } });
    const answer = await other.fetch('/v1/messages', { json: { model: 'scripted', max_tokens: 9, messages: hello } });
    expect(await answer.text()).toContain('"input":{"id":9007199254740993123}');
    await other.close();
    await scripted.close();
  });

  it('is refused when the provider lacks a requested feature', async () => {
    const search = { type: 'web_search_20250305', name: 'web_search', max_uses: 3 };
    const before = gateway.simulated.requests.length;
    const answer = await post({ model: translated, max_tokens: 10, messages: hello, tools: [search] });
    expect(answer.status).toBe(400);
    expect(await json(answer)).toMatchObject({
      type: 'error',
      error: {
        type: 'invalid_request_error',
        message: expect.stringContaining('web_search_20250305'),
        details: { error_code: 'unsupported_value', param: 'tools[0].type' },
      },
    });
    expect(gateway.simulated.requests).toHaveLength(before);
  });
});

async function streamedMessage(body: object) {
  const { events } = await stream(body);
  return addedUp(events.filter(({ type }) => type !== 'ping')) as Answered;
}
