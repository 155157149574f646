import { describe, expect, it } from 'vitest';
import { chatRequestSchema } from '../../src/commands/chat/chat-request.ts';
import { parseEmbeddingsRequest } from '../../src/commands/embeddings/embeddings-request.ts';
import { checkRequest } from '../../src/commands/request-check.ts';
import { parseCreateResponse } from '../../src/commands/responses/create-request.ts';

const parseChatRequest = (json: unknown) => checkRequest(chatRequestSchema, json, ['model', 'messages']);

function refusal(parse: (json: unknown) => { ok: boolean; refusal?: unknown }, json: unknown) {
  const result = parse(json);
  if (result.ok) throw new Error('was accepted');
  return result.refusal;
}

describe('a create request', () => {
  const m = { model: 'local/m1' };

  it.each([
    ['a text', { ...m, input: 'hi' }],
    ['an empty text', { ...m, input: '' }],
    ['items without a type', { ...m, input: [{ role: 'user', content: 'hi' }] }],
    ['items with parts', { ...m, input: [{ role: 'user', content: [{ type: 'input_text', text: 'hi' }] }] }],
    ['items of unknown types', { ...m, input: [{ type: 'computer_call', action: { x: 1 } }] }],
    ['no items', { ...m, input: [] }],
    ['a prompt template instead of input', { ...m, prompt: { id: 'pmpt_1' } }],
    ['unknown members', { ...m, input: 'hi', seed: { any: 'thing' } }],
    ['a conversation by id', { ...m, input: 'hi', conversation: 'conv_1' }],
    ['a conversation as an object', { ...m, input: 'hi', conversation: { id: 'conv_1' } }],
    ['instructions as items', { ...m, input: 'hi', instructions: [{ role: 'system', content: 'x' }] }],
    ['tools of any type', { ...m, input: 'hi', tools: [{ type: 'web_search' }, { type: 'namespace', tools: [] }] }],
    [
      'null everywhere',
      {
        ...m,
        input: 'hi',
        include: null,
        truncation: null,
        previous_response_id: null,
        conversation: null,
        reasoning: null,
        instructions: null,
        tools: null,
        tool_choice: null,
        metadata: null,
        text: null,
        store: null,
        stream: null,
        stream_options: null,
        temperature: null,
        max_output_tokens: null,
        top_logprobs: null,
        parallel_tool_calls: null,
        user: null,
      },
    ],
    [
      'empty strings and objects',
      { ...m, input: 'hi', instructions: '', user: '', reasoning: {}, text: {}, include: [] },
    ],
  ])('may hold %s, and is unchanged', (_name, json) => {
    const result = parseCreateResponse(json);
    expect(result).toEqual({ ok: true, request: json });
    expect(result.ok && result.request).toBe(json);
  });

  it.each([
    ['missing', {}],
    ['null', { input: null }],
    ['null beside an empty prompt', { input: null, prompt: null }],
  ])('needs an input: %s', (_name, more) => {
    expect(refusal(parseCreateResponse, { ...m, ...more })).toEqual({
      status: 400,
      code: 'missing_required_parameter',
      param: 'input',
      message: "Missing required parameter: 'input'.",
    });
  });

  it.each([
    ['missing', { input: 'hi' }],
    ['null', { input: 'hi', model: null }],
    ['missing, and the input too', {}],
  ])('needs a model: %s', (_name, json) => {
    expect(refusal(parseCreateResponse, json)).toEqual({
      status: 400,
      code: 'missing_required_parameter',
      param: 'model',
      message: "Missing required parameter: 'model'.",
    });
  });

  it.each([
    ['input', { input: 42 }, 'invalid_type', 'a string or an array, but got a number'],
    ['input', { input: {} }, 'invalid_type', 'a string or an array, but got an object'],
    ['input[0]', { input: [7] }, 'invalid_type', 'an object, but got a number'],
    ['input[1].role', { input: [{ role: 'user' }, { role: 7 }] }, 'invalid_type', 'a string, but got a number'],
    ['input[0].content', { input: [{ content: 7 }] }, 'invalid_type', 'a string or an array, but got a number'],
    [
      'input[0].content[1]',
      { input: [{ content: [{ type: 'x' }, 'y'] }] },
      'invalid_type',
      'an object, but got a string',
    ],
    ['input[0].content[0].type', { input: [{ content: [{ type: 1 }] }] }, 'invalid_type', 'a string, but got a number'],
    ['model', { model: 7 }, 'invalid_type', 'a string, but got a number'],
    ['model', { model: '' }, 'invalid_value', 'at least one entry or character, but got an empty string'],
    ['temperature', { temperature: 'warm' }, 'invalid_type', 'a number, but got a string'],
    ['max_output_tokens', { max_output_tokens: 1.5 }, 'invalid_type', 'an integer, but got a number'],
    ['stream', { stream: 'yes' }, 'invalid_type', 'a boolean, but got a string'],
    ['tools', { tools: {} }, 'invalid_type', 'an array, but got an object'],
    ['tools[0].type', { tools: [{ type: 5 }] }, 'invalid_type', 'a string, but got a number'],
    ['metadata.a', { metadata: { a: 1 } }, 'invalid_type', 'a string, but got a number'],
    ['include[0]', { include: [1] }, 'invalid_type', 'a string, but got a number'],
    ['conversation.id', { conversation: { id: 1 } }, 'invalid_type', 'a string, but got a number'],
    ['reasoning', { reasoning: 'high' }, 'invalid_type', 'an object, but got a string'],
  ])('names %s when it has the wrong type: %j', (param, more, code, expected) => {
    expect(refusal(parseCreateResponse, { ...m, input: 'hi', ...more })).toEqual({
      status: 400,
      code,
      param,
      message: `Invalid value for '${param}': expected ${expected}.`,
    });
  });

  it('names a member that is missing further in', () => {
    expect(refusal(parseCreateResponse, { ...m, input: 'hi', tools: [{ name: 'f' }] })).toMatchObject({
      code: 'missing_required_parameter',
      param: 'tools[0].type',
    });
  });

  it.each([
    ['null', null],
    ['an array', []],
    ['a string', 'hi'],
    ['a number', 7],
    ['nothing', undefined],
  ])('is an object, not %s', (_name, json) => {
    expect(refusal(parseCreateResponse, json)).toMatchObject({ status: 400, code: 'invalid_type', param: null });
  });
});

describe('a chat request', () => {
  it.each([
    ['a message', { model: 'm', messages: [{ role: 'user', content: 'hi' }] }],
    [
      'parts, tool calls and unknown members',
      {
        model: 'm',
        messages: [
          { role: 'user', content: [{ type: 'video_url', video_url: {} }] },
          { role: 'assistant', content: null, tool_calls: [{ id: 'x' }] },
        ],
        stream: null,
        logit_bias: { 1: 2 },
      },
    ],
  ])('may hold %s, and is unchanged', (_name, json) => {
    const result = parseChatRequest(json);
    expect(result.ok && result.request).toBe(json);
  });

  it.each([
    ['missing_required_parameter', 'model', { messages: [{ role: 'user' }] }],
    ['missing_required_parameter', 'messages', { model: 'm' }],
    ['missing_required_parameter', 'messages', { model: 'm', messages: null }],
    ['invalid_type', 'messages', { model: 'm', messages: 'not-an-array' }],
    ['invalid_value', 'messages', { model: 'm', messages: [] }],
    ['missing_required_parameter', 'messages[0].role', { model: 'm', messages: [{ content: 'hi' }] }],
    ['invalid_type', 'messages[1].role', { model: 'm', messages: [{ role: 'user' }, { role: 7 }] }],
    ['invalid_type', 'stream', { model: 'm', messages: [{ role: 'user' }], stream: 1 }],
    ['invalid_type', null, 'hi'],
  ])('is refused as %s at %s', (code, param, json) => {
    expect(refusal(parseChatRequest, json)).toMatchObject({ status: 400, code, param });
  });
});

describe('an embeddings request', () => {
  it.each([['hi'], [['a', 'b']], [[1, 2]], [[[1, 2], [3]]]])('may have the input %j', (input) => {
    expect(parseEmbeddingsRequest({ model: 'm', input, dimensions: 8 }).ok).toBe(true);
  });

  it.each([
    ['missing_required_parameter', 'input', undefined],
    ['invalid_value', 'input', ''],
    ['invalid_value', 'input', []],
    ['invalid_type', 'input', 42],
    ['invalid_type', 'input[1]', ['a', 1]],
    ['invalid_type', 'input[0]', [1.5]],
    ['invalid_value', 'input[0]', [[]]],
    ['invalid_type', 'input[1][0]', [[1], ['a']]],
  ])('is refused as %s at %s for %j', (code, param, input) => {
    expect(refusal(parseEmbeddingsRequest, { model: 'm', input })).toMatchObject({ status: 400, code, param });
  });
});
