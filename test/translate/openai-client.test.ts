/** Our bytes, read by OpenAI's own client: its accumulator checks identity, order and completeness of every item. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type ChatStreamTranslator,
  createChatStreamTranslator,
} from '../../src/providers/translate/chat-to-responses/stream.ts';
import { END_MARKER, encodeEvent } from '../../src/providers/translate/json.ts';
import { completedAt, shellFor } from './shells.ts';

let server: Server;
let client: OpenAI;
/** The next bytes of the server, one buffer at a time. */
let tape: Buffer[] = [];

beforeAll(async () => {
  server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const bytes of tape) response.write(bytes);
    response.end();
  });
  await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
  const { port } = server.address() as AddressInfo;
  client = new OpenAI({ apiKey: 'key', baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 });
});

afterAll(() => server.close());

const says = (delta: object, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason }],
});
const callChunk = (index: number, more: object) => says({ tool_calls: [{ index, ...more }] });
const usage = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } };

const text = [says({ role: 'assistant', content: '' }), says({ content: 'Hel' }), says({ content: 'lo' })];
const call = [
  callChunk(0, { id: 'call_a', type: 'function', function: { name: 'f', arguments: '' } }),
  callChunk(0, { function: { arguments: '{"x":1}' } }),
];

function record(
  chunks: readonly object[],
  end = (translator: ChatStreamTranslator) => translator.finish({ completedAt, endMarker: true }),
) {
  const shell = shellFor({
    tools: [
      { type: 'custom', name: 'patch' },
      { type: 'function', name: 'f', parameters: null },
    ],
  });
  const translator = createChatStreamTranslator(shell);
  const events = [...chunks.flatMap((chunk) => translator.push(chunk)), ...end(translator)];
  tape = [...events, END_MARKER as typeof END_MARKER].map((event) => encodeEvent(event, true));
  return translator.snapshot();
}

async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const one of stream) seen.push(one);
  return seen;
}

describe('OpenAI’s client accumulates', () => {
  it.each([
    ['a text', [...text, says({}, 'stop'), usage], 'Hello'],
    ['a tool call', [...call, says({}, 'tool_calls'), usage], ''],
    ['a text and a tool call', [...text, ...call, says({}, 'tool_calls')], 'Hello'],
    [
      'parallel tool calls in any mix',
      [
        callChunk(0, { id: 'a', function: { name: 'f', arguments: '{' } }),
        callChunk(1, { id: 'b', function: { name: 'patch', arguments: '{"input":' } }),
        callChunk(0, { function: { arguments: '}' } }),
        callChunk(1, { function: { arguments: '"x"}' } }),
        says({}, 'tool_calls'),
      ],
      '',
    ],
    ['a refusal', [says({ refusal: 'No' }), says({ refusal: '.' }), says({}, 'stop')], ''],
    ['reasoning and text', [says({ reasoning_content: 'Hm.' }), ...text, says({}, 'stop')], 'Hello'],
    [
      'text around a tool call, with thinking between',
      [...text, ...call, says({ reasoning: 'Hm.' }), says({ content: ', you' }), says({}, 'stop')],
      'Hello, you',
    ],
    ['an answer cut by its limit', [...text, says({}, 'length')], 'Hello'],
    ['an answer cut in its reasoning', [says({ reasoning: 'Hm' }), says({}, 'length')], ''],
    ['an answer without a word', [says({}, 'stop')], ''],
    [
      'log probabilities and a citation',
      [
        {
          choices: [
            {
              index: 0,
              delta: {
                content: 'Hi',
                annotations: [{ type: 'url_citation', url: 'u', title: 't', start_index: 0, end_index: 2 }],
              },
              logprobs: { content: [{ token: 'Hi', logprob: -1, bytes: [72, 105], top_logprobs: [] }] },
              finish_reason: 'stop',
            },
          ],
        },
      ],
      'Hi',
    ],
  ])('%s', async (_name, chunks, said) => {
    const ours = record(chunks);
    const theirs = await client.responses.stream({ model: 'm', input: 'x' }).finalResponse();
    expect(theirs.output_text).toBe(said);
    expect(theirs.output).toMatchObject(ours.output);
    expect(theirs.status).toBe(ours.status);
    expect(theirs.usage).toEqual(ours.usage);
  });

  it('a stream that was cut, which it throws', async () => {
    record([...text, ...call], (translator) => translator.finish({ completedAt: 0, endMarker: false }));
    const response = client.responses.stream({ model: 'm', input: 'x' }).finalResponse();
    await expect(response).rejects.toThrow('ended its stream before the answer was complete');
  });

  it('a failure, which it throws', async () => {
    record(text, (translator) =>
      translator.fail({ type: 'provider_error', code: 'stream_broken', message: 'It broke.' }),
    );
    await expect(client.responses.stream({ model: 'm', input: 'x' }).finalResponse()).rejects.toThrow('It broke.');
    const plain = await client.responses.create({ model: 'm', input: 'x', stream: true });
    await expect(all(plain)).rejects.toThrow('It broke.');
  });

  it('event by event, each with its type', async () => {
    record([...text, says({}, 'stop')]);
    const events = await all(await client.responses.create({ model: 'm', input: 'x', stream: true }));
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_event, index) => index));
    expect(events.at(-1)?.type).toBe('response.completed');
  });
});
