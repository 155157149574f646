/** Integers beyond the precision of JavaScript numbers, on every path that translates or stores JSON. */
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { exchangeOf, weather, withGateway } from '../support/with-gateway.ts';

/** 2^53 + 1, and the smallest 64-bit integer: `JSON.parse` rounds both. */
const DIGITS = ['9007199254740993', '-9223372036854775808'] as const;
const [LARGE, SMALLEST] = DIGITS;
const INPUT = `{"id":${LARGE},"deep":[{"at":${SMALLEST}}]}`;
const AS_TEXT = JSON.stringify(INPUT);

/** The form of Anthropic's list of models. */
const LISTING =
  '{"data":[{"id":"scripted","type":"model","display_name":"S","created_at":"2026-01-01T00:00:00Z"}],"has_more":false}';

const JSON_TYPE = { 'content-type': 'application/json' };
const SSE = { 'content-type': 'text/event-stream' };
const NDJSON = { 'content-type': 'application/x-ndjson' };

let scripted: ScriptedProvider;
let sent = '';
let answer: { readonly type: Record<string, string>; readonly body: string } = { type: JSON_TYPE, body: '{}' };

const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  scripted.script((request, response) => {
    const respond = (type: Record<string, string>, body: string) => response.writeHead(200, type).end(body);
    if (request.path.startsWith('/v1/models?')) return respond(JSON_TYPE, LISTING);
    if (request.path === '/api/tags') return respond(JSON_TYPE, '{"models":[{"model":"scripted"}]}');
    if (request.path === '/api/show') return respond(JSON_TYPE, '{"capabilities":["completion","tools"]}');
    if (request.path === '/props') return response.writeHead(404).end();
    sent = request.body.toString();
    return respond(answer.type, answer.body);
  });
  return {
    simulated: false,
    env: {
      ANTHROPIC_BASE_URL: scripted.url,
      ANTHROPIC_API_KEY: 'a-key',
      OLLAMA_BASE_URL: scripted.url,
      LLAMACPP_BASE_URL: scripted.url,
      OPENAI_BASE_URL: scripted.url,
      OPENAI_API_KEY: 'a-key',
      RETRY_MAX_RETRIES: '0',
      CIRCUIT_BREAKER_ENABLED: 'false',
    },
  };
});
afterAll(() => scripted.close());
beforeEach(() => {
  sent = '';
});

const CHAT = '/v1/chat/completions';
const MESSAGES = '/v1/messages';
const RESPONSES = '/v1/responses';

async function text(path: string, body: string): Promise<{ readonly text: string; readonly exchange: string }> {
  const reply = await gateway.post(path, body);
  const said = await reply.text();
  expect(reply.status, said).toBe(200);
  return { text: said, exchange: exchangeOf(reply) };
}

const usage = '"usage":{"input_tokens":1,"output_tokens":1}';
const message = (content: string) =>
  `{"id":"msg_1","type":"message","role":"assistant","model":"scripted","content":[${content}],"stop_reason":"tool_use",${usage}}`;
const toolUse = (input: string) => `{"type":"tool_use","id":"call_1","name":"get_weather","input":${input}}`;
const completion = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":${AS_TEXT}}}]},"finish_reason":"tool_calls"}]}`;
const ollamaLine = `{"model":"scripted","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":${INPUT}}}]},"done":true,"done_reason":"stop"}`;
const chatTools = JSON.stringify([{ type: 'function', function: weather }]);
const messagesTools = JSON.stringify([{ name: weather.name, input_schema: weather.parameters }]);

/** A conversation of chat completions that contains a tool call. */
function chatAsked(model: string, more = ''): string {
  const call = `{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":${AS_TEXT}}}`;
  const turns = `{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[${call}]},{"role":"tool","tool_call_id":"call_1","content":"ok"}`;
  return `{"model":"${model}/scripted","max_tokens":9,"tools":${chatTools},"messages":[${turns}]${more}}`;
}

/** The arguments of the calls in a stream of chat completion chunks, joined. */
function streamedArguments(stream: string): string {
  return [...stream.matchAll(/"arguments":("(?:[^"\\]|\\.)*")/g)].map(([, said]) => JSON.parse(said ?? '""')).join('');
}

describe('an integer past 2^53 in the arguments of a tool call', () => {
  it.each([
    ['anthropic', message('{"type":"text","text":"ok"}'), `"input":${INPUT}`],
    ['ollama', '{"message":{"role":"assistant","content":"ok"},"done":true}', `"arguments":${INPUT}`],
  ])('reaches %s from chat completions unchanged', async (type, body, member) => {
    answer = { type: JSON_TYPE, body };
    await text(CHAT, chatAsked(type));
    expect(sent).toContain(member);
  });

  it('reaches a chat provider from the Messages API unchanged', async () => {
    answer = { type: JSON_TYPE, body: completion };
    const turns = `{"role":"user","content":"hi"},{"role":"assistant","content":[${toolUse(INPUT)}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"ok"}]}`;
    const body = `{"model":"llamacpp/scripted","max_tokens":9,"tools":${messagesTools},"messages":[${turns}]}`;
    expect((await text(MESSAGES, body)).text).toContain(`"input":${INPUT}`);
    expect(sent).toContain(`"arguments":${AS_TEXT}`);
  });

  it.each([
    ['anthropic', message(toolUse(INPUT))],
    ['ollama', ollamaLine],
  ])('comes from %s unchanged, also in the record', async (type, body) => {
    answer = { type: JSON_TYPE, body };
    const request = `{"model":"${type}/scripted","max_tokens":9,"seed_of_test":${LARGE},"tools":${chatTools},"messages":[{"role":"user","content":"hi"}]}`;
    const said = await text(CHAT, request);
    expect(said.text).toContain(`"arguments":${AS_TEXT}`);
    const recorded = await gateway.fetch(`/admin/audit/detail?log_id=${said.exchange}`);
    const detail = await recorded.text();
    expect(detail).toContain(`"seed_of_test":${LARGE}`);
    expect(detail).toContain(`"arguments":${AS_TEXT}`);
  });

  it('comes from a stream of Anthropic unchanged, also when the call comes in one event', async () => {
    const events = [
      `{"type":"message_start","message":${message('').replace('"stop_reason":"tool_use",', '')}}`,
      `{"type":"content_block_start","index":0,"content_block":${toolUse(INPUT)}}`,
      '{"type":"content_block_stop","index":0}',
      '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":1}}',
      '{"type":"message_stop"}',
    ];
    answer = { type: SSE, body: events.map((event) => `data: ${event}\n\n`).join('') };
    const said = await text(CHAT, chatAsked('anthropic', ',"stream":true'));
    expect(streamedArguments(said.text)).toBe(INPUT);
  });

  it('comes from a stream of Ollama unchanged', async () => {
    answer = { type: NDJSON, body: `${ollamaLine}\n` };
    const said = await text(CHAT, chatAsked('ollama', ',"stream":true'));
    expect(streamedArguments(said.text)).toBe(INPUT);
  });

  it('is refused where the arguments are the integer alone', async () => {
    const reply = await gateway.post(CHAT, chatAsked('anthropic').replace(AS_TEXT, `"${LARGE}"`));
    expect(reply.status).toBe(400);
    expect((await reply.json()) as object).toMatchObject({
      error: { param: 'messages[1].tool_calls[0].function.arguments' },
    });
  });
});

describe('an integer past 2^53 in a stored response', () => {
  const output = `{"type":"function_call_output","call_id":"call_1","output":${INPUT}}`;
  const call = `{"type":"function_call","call_id":"call_1","name":"get_weather","arguments":${AS_TEXT}}`;
  const tools = `[{"type":"function","name":"pick","parameters":{"type":"object","properties":{"id":{"type":"integer","maximum":${LARGE}}}}}]`;

  it.each(['ollama', 'anthropic'])('is returned unchanged by %s, and sent unchanged in the next turn', async (type) => {
    const bodies = { ollama: ollamaLine, anthropic: message(toolUse(INPUT)) };
    answer = { type: JSON_TYPE, body: bodies[type === 'ollama' ? 'ollama' : 'anthropic'] };
    const requested = `{"model":"${type}/scripted","max_output_tokens":9,"tools":${tools},"input":[{"role":"user","content":"hi"},${call},${output}]}`;
    const said = await text(RESPONSES, requested);
    expect(said.text).toContain(`"arguments":${AS_TEXT}`);
    const { id } = JSON.parse(said.text) as { id: string };
    const stored = await (await gateway.fetch(`${RESPONSES}/${id}`)).text();
    expect(stored).toContain(`"arguments":${AS_TEXT}`);
    expect(stored).toContain(`"maximum":${LARGE}`);
    expect(await (await gateway.fetch(`${RESPONSES}/${id}/input_items`)).text()).toContain(`"output":${INPUT}`);
    const streamed = await (await gateway.fetch(`${RESPONSES}/${id}?stream=true`)).text();
    expect(streamed).toContain(`"maximum":${LARGE}`);

    answer = { type: JSON_TYPE, body: type === 'ollama' ? ollamaLine : message('{"type":"text","text":"ok"}') };
    const next = `{"model":"${type}/scripted","previous_response_id":"${id}","input":[{"type":"function_call_output","call_id":"call_1","output":"ok"}]}`;
    await text(RESPONSES, next);
    expect(sent).toContain(JSON.stringify(INPUT));
    expect(sent).toContain(INPUT);
  });

  it('is unchanged where the gateway adds its own members', async () => {
    const response = `{"id":"resp_native_1","object":"response","created_at":1,"status":"completed","model":"scripted","output":[{"id":"fc_1","type":"function_call","call_id":"call_1","name":"pick","arguments":${AS_TEXT},"status":"completed"}],"tools":${tools},"usage":null}`;
    answer = { type: JSON_TYPE, body: response };
    const conversation = await gateway.post('/v1/conversations', `{"items":[${call},${output}]}`);
    const made = await conversation.text();
    expect(conversation.status, made).toBe(200);
    const { id } = JSON.parse(made) as { id: string };
    const items = async () => (await gateway.fetch(`/v1/conversations/${id}/items?order=asc`)).text();
    expect(await items()).toContain(`"output":${INPUT}`);
    const requested = `{"model":"openai/scripted","conversation":"${id}","tools":${tools},"input":"hi"}`;
    const said = await text(RESPONSES, requested);
    expect(sent).toContain(INPUT);
    expect(said.text).toContain(`"maximum":${LARGE}`);
    expect(await (await gateway.fetch(`${RESPONSES}/resp_native_1`)).text()).toContain(`"maximum":${LARGE}`);
  });
});
