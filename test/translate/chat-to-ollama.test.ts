import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createSplitter } from '../../src/providers/stream-frames.ts';
import { completionOf } from '../../src/providers/translate/chat-adapter.ts';
import { OllamaReader } from '../../src/providers/translate/chat-to-ollama/reader.ts';
import { ollamaRequestFromChat } from '../../src/providers/translate/chat-to-ollama/request.ts';
import type { JsonObject } from '../../src/providers/translate/json.ts';
import { countOf } from '../support/seed.ts';

const facts = { model: 'llama3.2', stream: false, options: {} };
const hello = [{ role: 'user', content: 'hello' }];

function translated(chat: JsonObject, stream = false): JsonObject {
  const result = ollamaRequestFromChat({ messages: hello, ...chat }, { ...facts, stream });
  if (!result.ok) throw new Error(result.refusal.message);
  return result.body;
}

function refusal(chat: JsonObject) {
  const result = ollamaRequestFromChat({ messages: hello, ...chat }, facts);
  if (result.ok) throw new Error(`it was translated: ${JSON.stringify(result.body)}`);
  return result.refusal;
}

describe('a request', () => {
  it('always has stream, because Ollama streams by default', () => {
    expect(translated({ stream: true }, true)).toEqual({ model: 'llama3.2', messages: hello, stream: true });
    expect(translated({})).toEqual({ model: 'llama3.2', messages: hello, stream: false });
  });

  it('has its messages in plain strings, with images, thoughts and calls beside them', () => {
    expect(
      translated({
        messages: [
          { role: 'developer', content: 'Be brief.' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'What' },
              { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
              { type: 'text', text: 'is this?' },
            ],
          },
          {
            role: 'assistant',
            content: null,
            reasoning_content: 'hm',
            tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"deep":true}' } }],
          },
          { role: 'tool', tool_call_id: 'c1', content: 'a cat' },
        ],
      })['messages'],
    ).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'What\nis this?', images: ['AAAA'] },
      {
        role: 'assistant',
        content: '',
        thinking: 'hm',
        tool_calls: [{ id: 'c1', function: { index: 0, name: 'look', arguments: { deep: true } } }],
      },
      { role: 'tool', content: 'a cat', tool_name: 'look', tool_call_id: 'c1' },
    ]);
  });

  it('has its settings where Ollama reads them, and unknown ones kept', () => {
    expect(
      translated({
        temperature: 1.5,
        top_p: 0.9,
        top_k: 5,
        num_ctx: 8192,
        seed: 1,
        presence_penalty: 1,
        frequency_penalty: 0,
        stop: 'END',
        max_tokens: 20,
        keep_alive: '10m',
        options: { min_p: 0.1 },
        logprobs: true,
        top_logprobs: 2,
        user: 'u',
        metadata: {},
        stream_options: {},
        n: 1,
        parallel_tool_calls: true,
        tool_choice: 'auto',
        service_tier: 'auto',
      }),
    ).toEqual({
      model: 'llama3.2',
      messages: hello,
      keep_alive: '10m',
      logprobs: true,
      top_logprobs: 2,
      options: {
        temperature: 1.5,
        top_p: 0.9,
        top_k: 5,
        num_ctx: 8192,
        seed: 1,
        presence_penalty: 1,
        frequency_penalty: 0,
        num_predict: 20,
        stop: ['END'],
        min_p: 0.1,
      },
      stream: false,
    });
  });

  it.each([
    ['none', false],
    ['minimal', 'low'],
    ['medium', 'medium'],
    ['max', 'high'],
  ])('for the effort %s thinks %j', (effort, think) => {
    expect(translated({ reasoning_effort: effort })['think']).toBe(think);
    expect(translated({ reasoning: { effort } })['think']).toBe(think);
  });

  it('may be held to JSON, or to a schema', () => {
    const schema = { type: 'object' };
    expect(translated({ response_format: { type: 'json_object' } })['format']).toBe('json');
    expect(translated({ response_format: { type: 'json_schema', json_schema: { schema } } })['format']).toEqual(schema);
    expect(translated({ response_format: { type: 'text' } })).not.toHaveProperty('format');
  });

  it('has no tools when none may be called', () => {
    const tools = [{ type: 'function', function: { name: 'f' } }];
    expect(translated({ tools })['tools']).toEqual(tools);
    expect(translated({ tools, tool_choice: 'none' })).not.toHaveProperty('tools');
  });

  it.each<[string, JsonObject, string]>([
    ['a tool that must be called', { tool_choice: 'required' }, 'tool_choice'],
    ['calls one at a time', { parallel_tool_calls: false }, 'parallel_tool_calls'],
    ['several answers', { n: 2 }, 'n'],
    ['biased tokens', { logit_bias: { 1: 1 } }, 'logit_bias'],
    ['spoken answers', { modalities: ['audio'] }, 'modalities'],
    ['another kind of tool', { tools: [{ type: 'custom' }] }, 'tools[0].type'],
    ['an unknown format', { response_format: { type: 'xml' } }, 'response_format'],
    [
      'an image to fetch',
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.b/c' } }] }] },
      'messages[0].content[0].image_url',
    ],
    ['a file', { messages: [{ role: 'user', content: [{ type: 'file', file: {} }] }] }, 'messages[0].content[0].type'],
    ['an unknown role', { messages: [{ role: 'function', content: 'x' }] }, 'messages[0].role'],
    ['messages that are none', { messages: 'x' }, 'messages'],
    [
      'arguments that are cut off',
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'a', function: { name: 'f', arguments: '{"a' } }] }] },
      'messages[0].tool_calls[0].function.arguments',
    ],
  ])('for %s is refused, naming the place', (_what, chat, param) => {
    expect(refusal(chat)).toMatchObject({ status: 400, param });
  });
});

const answerFacts = { id: 'chatcmpl-9', model: 'ollama/llama3.2', createdAt: 1_700_000_000 };
const line = (message: object, more: object = {}) => ({
  model: 'llama3.2',
  created_at: '2026-01-01T00:00:00Z',
  message,
  done: false,
  ...more,
});
const done = { done: true, done_reason: 'stop', prompt_eval_count: 5, eval_count: 7 };

describe('an answer', () => {
  it('whole becomes a completion', () => {
    const message = {
      role: 'assistant',
      content: '',
      thinking: 'hm',
      tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }, { id: 'own', function: { name: 'g' } }],
    };
    expect(new OllamaReader(answerFacts).whole(line(message, done))).toEqual({
      id: 'chatcmpl-9',
      object: 'chat.completion',
      created: 1_700_000_000,
      model: 'llama3.2',
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: null,
            refusal: null,
            reasoning_content: 'hm',
            tool_calls: [
              { id: 'call_9_0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
              { id: 'own', type: 'function', function: { name: 'g', arguments: '{}' } },
            ],
          },
          logprobs: null,
          finish_reason: 'tool_calls',
        },
      ],
      usage: { prompt_tokens: 5, completion_tokens: 7, total_tokens: 12 },
    });
  });

  it('streamed ends with its finish reason, then its usage', () => {
    const reader = new OllamaReader(answerFacts);
    const lines = [
      line({ content: 'Hel' }),
      line({ content: 'lo' }),
      line({ content: '' }, { ...done, done_reason: 'length' }),
    ];
    const chunks = lines.flatMap((one) => reader.chunks(JSON.stringify(one)) ?? []);
    expect(reader.ended).toBe(true);
    expect(chunks).toMatchObject([
      {
        object: 'chat.completion.chunk',
        choices: [{ delta: { role: 'assistant', content: '' }, finish_reason: null }],
      },
      { choices: [{ delta: { content: 'Hel' } }] },
      { choices: [{ delta: { content: 'lo' } }] },
      { choices: [{ delta: {}, finish_reason: 'length' }] },
      { choices: [], usage: { total_tokens: 12 } },
    ]);
  });

  it('carries log probabilities', () => {
    const logprobs = [{ token: 'a', logprob: -0.1, bytes: [97], top_logprobs: [] }];
    expect(new OllamaReader(answerFacts).whole(line({ content: 'a' }, { ...done, logprobs }))).toMatchObject({
      choices: [{ logprobs: { content: logprobs } }],
    });
  });

  it('that reports an error gives it as an error', () => {
    expect(new OllamaReader(answerFacts).chunks('{"error":"out of memory"}')).toEqual([
      { error: { message: 'out of memory' } },
    ]);
  });

  it.each([[null], [{ error: 'x' }], ['x']])('%j is returned unchanged', (answer) => {
    expect(new OllamaReader(answerFacts).whole(answer)).toBe(answer);
  });

  const said = fc.array(
    fc.oneof(
      fc.string({ unit: 'grapheme' }).map((content) => ({ content })),
      fc.string().map((thinking) => ({ content: '', thinking })),
      fc
        .dictionary(fc.string(), fc.string())
        .map((args) => ({ content: '', tool_calls: [{ function: { name: 'f', arguments: args } }] })),
    ),
  );

  it('reads the same for any pieces of its stream', () => {
    fc.assert(
      fc.property(said, fc.infiniteStream(fc.nat(40)), (messages, cuts) => {
        const lines = [...messages.map((message) => line(message)), line({ content: '' }, done)];
        const bytes = Buffer.from(lines.map((one) => `${JSON.stringify(one)}\n`).join(''));
        const read = (size: () => number) => {
          const reader = new OllamaReader(answerFacts);
          const splitter = createSplitter('lines', { maxFrameBytes: 1 << 20 });
          const chunks: JsonObject[] = [];
          for (let at = 0; at < bytes.length; ) {
            const end = at + size();
            for (const { data } of splitter.push(bytes.subarray(at, end)))
              chunks.push(...(reader.chunks(data ?? '') ?? []));
            at = end;
          }
          return chunks;
        };
        const whole = read(() => bytes.length);
        expect(read(() => 1 + Number(cuts.next().value))).toEqual(whole);
        const content = messages.map((message) => message.content).join('');
        const calls = messages.some((message) => 'tool_calls' in message);
        expect(completionOf(whole)).toMatchObject({
          choices: [{ message: { content: content === '' && calls ? null : content } }],
        });
      }),
      { numRuns: countOf(50, 200) },
    );
  });
});
