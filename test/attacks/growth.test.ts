/**
 * What a request costs grows like its size: twice as many messages, parts, tools or members cost at most 2.3 times as
 * much in every translator and in the pass before parsing. The least time of several runs is compared, over three
 * doublings.
 */
import { expect, it } from 'vitest';
import { jsonProblem, unbounded } from '../../src/json/body-scan.ts';
import { parseExactly } from '../../src/json/exact-json.ts';
import { messagesRequestFromChat } from '../../src/providers/translate/chat-to-messages/request.ts';
import { ollamaRequestFromChat } from '../../src/providers/translate/chat-to-ollama/request.ts';
import type { JsonObject } from '../../src/providers/translate/json.ts';
import { chatRequestFromMessages } from '../../src/providers/translate/messages-to-chat/request.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { chatRequestFromResponses } from '../../src/providers/translate/responses-to-chat/request.ts';

const FACTOR = 2.3;
/**
 * Of the smaller body; the other is eight times as large. Work that grows with the square is then most of the time, and
 * the whole is short enough to be measured on a busy machine, too.
 */
const SIZE = 500;
const DOUBLINGS = 3;
const ROUNDS = 300;

const options = { model: 'm', reasoningStyle: plainReasoning };
const facts = { model: 'm', stream: false, options: {} };
const translators = {
  'messages → chat': (body: JsonObject) => chatRequestFromMessages({ max_tokens: 9, ...body }, options),
  'chat → messages': (body: JsonObject) => messagesRequestFromChat(body, facts),
  'chat → ollama': (body: JsonObject) => ollamaRequestFromChat(body, facts),
  'responses → chat': (body: JsonObject) => chatRequestFromResponses(body, options),
  scan: (body: JsonObject) => jsonProblem(Buffer.from(JSON.stringify(body)), unbounded),
  parse: (body: JsonObject) => parseExactly(JSON.stringify(body)),
};

const times = <Value>(size: number, make: (at: number) => Value) => Array.from({ length: size }, (_, at) => make(at));
const user = { role: 'user', content: 'a' };
const call = (id: number) => ({ id: `c${id}`, type: 'function', function: { name: 'f', arguments: '{}' } });
const thinking = (at: number) => ({
  anthropic: { thinking_blocks: [{ type: 'thinking', thinking: 't', signature: `s${at}` }] },
});
const toolUse = (at: number) => ({ type: 'tool_use', id: `c${at}`, name: 'f', input: {} });
const result = (at: number) => ({
  role: 'user',
  content: [{ type: 'tool_result', tool_use_id: `c${at}`, content: 'x' }],
});
const tool = (at: number) => ({ type: 'function', name: `f${at}`, parameters: {} });
const itemCall = (at: number) => ({ type: 'function_call', call_id: `c${at}`, name: 'f', arguments: '{}' });
const itemOutput = (at: number) => ({ type: 'function_call_output', call_id: `c${at}`, output: 'x' });

const dimensions: readonly [keyof typeof translators, string, (size: number) => JsonObject][] = [
  ['messages → chat', 'turns of the user', (n) => ({ messages: times(n, () => user) })],
  [
    'messages → chat',
    'parts',
    (n) => ({ messages: [{ role: 'user', content: times(n, () => ({ type: 'text', text: 'a' })) }] }),
  ],
  ['messages → chat', 'system messages', (n) => ({ messages: times(n, () => ({ role: 'system', content: 'a' })) })],
  [
    'messages → chat',
    'system messages behind results',
    (n) => ({
      messages: [...times(n, result), ...times(n, () => ({ role: 'system', content: 'a' })), user],
    }),
  ],
  [
    'messages → chat',
    'calls and results',
    (n) => ({ messages: [{ role: 'assistant', content: times(n, toolUse) }, ...times(n, result)] }),
  ],
  [
    'messages → chat',
    'turns of both',
    (n) => ({ messages: times(n, (at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content: 'a' })) }),
  ],
  [
    'messages → chat',
    'tools',
    (n) => ({ messages: [user], tools: times(n, (at) => ({ name: `f${at}`, input_schema: {} })) }),
  ],
  ['chat → messages', 'turns of the user', (n) => ({ messages: times(n, () => user) })],
  [
    'chat → messages',
    'calls and results',
    (n) => ({
      messages: [
        { role: 'assistant', content: 'a', tool_calls: times(n, call) },
        ...times(n, (at) => ({ role: 'tool', tool_call_id: `c${at}`, content: 'x' })),
      ],
    }),
  ],
  [
    'chat → messages',
    'results among texts',
    (n) => ({
      messages: times(n, (at) => (at % 2 === 0 ? user : { role: 'tool', tool_call_id: `c${at}`, content: 'x' })),
    }),
  ],
  [
    'chat → messages',
    'thinking between calls',
    (n) => ({
      messages: [
        user,
        {
          role: 'assistant',
          content: 'a',
          tool_calls: times(n, (at) => ({ ...call(at), extra_content: thinking(at) })),
        },
      ],
    }),
  ],
  [
    'chat → messages',
    'system messages',
    (n) => ({ messages: [user, ...times(n, () => ({ role: 'system', content: 'a' }))] }),
  ],
  ['chat → ollama', 'turns of the user', (n) => ({ messages: times(n, () => user) })],
  [
    'chat → ollama',
    'calls and results',
    (n) => ({
      messages: [
        { role: 'assistant', content: 'a', tool_calls: times(n, call) },
        ...times(n, (at) => ({ role: 'tool', tool_call_id: `c${at}`, content: 'x' })),
      ],
    }),
  ],
  ['responses → chat', 'messages', (n) => ({ input: times(n, () => user) })],
  ['responses → chat', 'calls, then outputs', (n) => ({ input: [...times(n, itemCall), ...times(n, itemOutput)] })],
  [
    'responses → chat',
    'outputs out of place',
    (n) => ({ input: [...times(n, itemCall), user, ...times(n, itemOutput)] }),
  ],
  [
    'responses → chat',
    'parts of the assistant behind a call',
    (n) => ({
      input: [
        itemCall(0),
        ...times(n, () => ({ role: 'assistant', content: [{ type: 'image_url', image_url: { url: 'data:,x' } }] })),
      ],
    }),
  ],
  [
    'responses → chat',
    'extra content of the assistant behind a call',
    (n) => ({
      input: [
        itemCall(0),
        ...times(n, (at) => ({ role: 'assistant', content: 'a', extra_content: { [`v${at}`]: [at], all: [at] } })),
      ],
    }),
  ],
  ['responses → chat', 'tools', (n) => ({ input: 'a', tools: times(n, tool) })],
  [
    'responses → chat',
    'allowed tools',
    (n) => ({
      input: 'a',
      tools: times(n, tool),
      tool_choice: {
        type: 'allowed_tools',
        mode: 'auto',
        tools: times(n, (at) => ({ type: 'function', name: `f${n - 1 - at}` })),
      },
    }),
  ],
  ['scan', 'members', (n) => ({ messages: [Object.fromEntries(times(n, (at) => [`m${at}`, at]))] })],
  ['scan', 'messages', (n) => ({ messages: times(n, () => user) })],
  ['scan', 'backslashes', (n) => ({ a: '\\"'.repeat(20 * n) })],
  ['scan', 'names with escapes', (n) => ({ a: times(n, () => ({ '\n\n': 1, '\n': 1 })) })],
  ['parse', 'messages', (n) => ({ messages: times(n, () => user) })],
];

it.each(dimensions)('%s: %s', { timeout: 120_000 }, (translator, _dimension, bodyOf) => {
  const run = translators[translator];
  const [small, large] = [bodyOf(SIZE), bodyOf(2 ** DOUBLINGS * SIZE)];
  const outcome = run(large);
  if (typeof outcome === 'object' && outcome !== null && 'ok' in outcome) expect(outcome).toMatchObject({ ok: true });
  let least = { small: Infinity, large: Infinity };
  for (let round = 0; round < ROUNDS; round++) {
    least = {
      small: Math.min(
        least.small,
        cost(() => run(small)),
      ),
      large: Math.min(
        least.large,
        cost(() => run(large)),
      ),
    };
    if (round >= 4 && least.large <= FACTOR ** DOUBLINGS * least.small) break;
  }
  expect(least.large / least.small).toBeLessThanOrEqual(FACTOR ** DOUBLINGS);
});

function cost(run: () => unknown): number {
  const started = performance.now();
  run();
  return performance.now() - started;
}
