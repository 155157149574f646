import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type AnswerTemplate, templateOf } from '../../../src/commands/exchange/reissuing/reissued-answer.ts';
import { mintEventId } from '../../../src/events/event-id.ts';
import {
  answer,
  completed,
  created,
  item,
  type Node,
  number,
  object,
  streamOf,
  type Values,
  written,
} from './answer-writer.ts';

const exchangeId = mintEventId();
const otherId = mintEventId();
const rootOf = (id: string) => id.replaceAll('-', '');

const first = { exchangeId, createdAt: 1_772_295_217, completedAt: 1_772_295_219 };
const second = { exchangeId: otherId, createdAt: 1_893_456_000, completedAt: 1_893_456_007 };

function valuesOf(prefix: string, issue: typeof first): Values {
  const root = rootOf(issue.exchangeId);
  return { answer: `${prefix}${root}`, created: issue.createdAt, completed: issue.completedAt, root };
}

/** Texts that look like something that is issued: they must stay as they are. */
const misleading = [
  `chatcmpl-${rootOf(exchangeId)}`,
  `{"id":"chatcmpl-${rootOf(exchangeId)}","created":1772295217}`,
  `msg_${rootOf(exchangeId)}_0`,
  'data: {"id":"x"}\n\ndata: [DONE]\n\n',
  '"id":"',
  '\\',
  '\\"',
  'ü\u2028😀',
  '',
];
const saidText = fc.oneof(fc.constantFrom(...misleading), fc.string({ unit: 'binary' }));
const picked = fc.array(fc.nat(5), { minLength: 1, maxLength: 60 });
const big = number('12345678901234567890');

const metadata = object(
  ['id', `resp_${rootOf(exchangeId)}`],
  ['created_at', number(1_772_295_217)],
  ['response_id', `resp_${rootOf(exchangeId)}`],
);

function chat(said: string): Node {
  const call = object(
    ['id', `call_${rootOf(exchangeId)}_0`],
    ['type', 'function'],
    ['function', object(['arguments', said])],
  );
  const message = object(['id', 'msg_inner'], ['content', said], ['created', number(5)], ['tool_calls', [call]]);
  const choice = object(['index', number(0)], ['finish_reason', 'stop'], ['message', message]);
  return object(
    ['id', answer],
    ['choices', [choice]],
    ['created', created],
    ['seed', big],
    ['id', answer],
    ['metadata', metadata],
    ['usage', object(['created', number(3)])],
  );
}

function chatEvents(said: readonly string[]): Node[] {
  const chunk = (delta: Node, reason: Node) =>
    object(
      ['id', answer],
      ['created', created],
      ['choices', [object(['index', number(0)], ['delta', delta], ['finish_reason', reason])]],
    );
  return [
    object(['id', ''], ['created', number(0)], ['choices', []], ['prompt_filter_results', []]),
    ...said.map((text) => chunk(object(['content', text]), null)),
    chunk(object(), 'stop'),
    object(['id', answer], ['choices', []], ['usage', object(['n', big])], ['created', created]),
  ];
}

function itemsOf(said: readonly string[]): Node[] {
  return said.map((text, place) => {
    const kind = ['msg', 'rs', 'fc'][place % 3] ?? 'msg';
    const type = { msg: 'message', rs: 'reasoning', fc: 'function_call' }[kind] ?? 'message';
    const part = object(['type', 'output_text'], ['text', text], ['id', `msg_${rootOf(exchangeId)}_0`]);
    return object(['type', type], ['call_id', `call_${place}`], ['id', item(kind, place)], ['content', [part]]);
  });
}

function response(said: readonly string[], status = 'completed'): Node {
  const ended: Node = status === 'completed' ? completed : null;
  return object(
    ['created_at', created],
    ['id', answer],
    ['completed_at', ended],
    ['error', null],
    ['previous_response_id', `resp_${rootOf(exchangeId)}`],
    ['instructions', said[0] ?? ''],
    ['output', itemsOf(said)],
    ['metadata', metadata],
    ['status', status],
    ['prompt', object(['id', 'pmpt_1'])],
  );
}

function responseEvents(said: readonly string[]): Node[] {
  const ofItem = (type: string, place: number, ...more: (readonly [string, Node])[]) =>
    object(['type', type], ...more, ['output_index', number(place)]);
  return [
    object(['type', 'response.created'], ['response', response([], 'in_progress')], ['response_id', answer]),
    ...itemsOf(said).flatMap((one, place) => [
      ofItem('response.output_item.added', place, ['item', one]),
      ofItem(
        'response.output_text.delta',
        place,
        ['item_id', item(['msg', 'rs', 'fc'][place % 3] ?? 'msg', place)],
        ['delta', said[place] ?? ''],
      ),
      ofItem('response.output_item.done', place, ['item', one], ['metadata', metadata]),
    ]),
    object(['type', 'response.completed'], ['response', response(said)], ['sequence_number', big]),
  ];
}

function messageEvents(said: readonly string[]): Node[] {
  return [
    object(['type', 'message_start'], ['message', object(['id', answer], ['content', []], ['stop_reason', null])]),
    object(['type', 'content_block_start'], ['content_block', object(['type', 'tool_use'], ['id', 'toolu_1'])]),
    ...said.map((text) => object(['type', 'content_block_delta'], ['id', 'x'], ['delta', object(['text', text])])),
    object(['type', 'message_delta'], ['delta', object(['stop_reason', 'end_turn'], ['id', 'x'])]),
    object(['type', 'message_stop'], ['id', 'msg_untouched']),
  ];
}

function template(dialect: string, stream: boolean, text: string): AnswerTemplate {
  const made = templateOf(dialect, stream, Buffer.from(text));
  if (made === undefined) throw new Error(`not reissued: ${text}`);
  return made;
}

/** Both issues of an answer, written without the code under test. */
function expectReissued(dialect: string, stream: boolean, prefix: string, write: (values: Values) => string): void {
  const original = write(valuesOf(prefix, first));
  const made = template(dialect, stream, original);
  expect(made.render(first).toString()).toBe(original);
  expect(made.render(second).toString()).toBe(write(valuesOf(prefix, second)));
  expect(made.facts.isWhole).toBe(true);
}

describe('a whole answer', () => {
  it.each([
    ['chat', 'chatcmpl-', chat],
    ['responses', 'resp_', (said: string) => response([said, said, said])],
    [
      'messages',
      'msg_',
      (said: string) =>
        object(
          ['id', answer],
          ['content', [object(['type', 'tool_use'], ['id', 'toolu_1'], ['input', object(['id', said])])]],
          ['stop_reason', 'tool_use'],
          ['created', number(7)],
        ),
    ],
    [
      'embeddings',
      'embd-',
      (said: string) =>
        object(
          ['data', [object(['embedding', [big]], ['id', said])]],
          ['created', created],
          ['id', answer],
          ['model', said],
        ),
    ],
  ] as const)('of %s differs in ids and timestamps only, in any formatting', (dialect, prefix, tree) => {
    fc.assert(
      fc.property(saidText, picked, (said, picks) => {
        expectReissued(dialect, false, prefix, (values) => written(tree(said), picks, values));
      }),
    );
  });
});

describe('a streamed answer', () => {
  it.each([
    ['chat', 'chatcmpl-', chatEvents, ['[DONE]']],
    ['responses', 'resp_', responseEvents, []],
    ['responses', 'resp_', responseEvents, ['[DONE]']],
    ['messages', 'msg_', messageEvents, []],
  ] as const)('of %s differs in ids and timestamps only, in any formatting', (dialect, prefix, trees, end) => {
    fc.assert(
      fc.property(fc.array(saidText, { maxLength: 4 }), picked, (said, picks) => {
        expectReissued(dialect, true, prefix, (values) =>
          streamOf([...trees(said).map((tree) => written(tree, picks, values)), ...end], picks),
        );
      }),
    );
  });

  it('keeps an unfinished last event, and a byte order mark', () => {
    const text = `\ufeffdata: {"id":"chatcmpl-old","created":5,"choices":[]}\n\ndata: [DONE]`;
    expect(template('chat', true, text).render(second).toString()).toBe(
      `\ufeffdata: {"id":"chatcmpl-${rootOf(otherId)}","created":1893456000,"choices":[]}\n\ndata: [DONE]`,
    );
  });

  it('of 1 MiB in one event is read in time linear in its length', () => {
    const text = JSON.stringify({ id: 'chatcmpl-old', choices: [], rest: '\\'.repeat(250_000), deep: '['.repeat(9) });
    const lines = `data: ${text.replaceAll(',', '\ndata: ,')}\n\n`;
    expect(template('chat', true, lines).render(second).toString()).toBe(
      lines.replace('chatcmpl-old', `chatcmpl-${rootOf(otherId)}`),
    );
  });
});

describe("a provider's own ids", () => {
  const event = (value: object) => `data: ${JSON.stringify(value)}\n\n`;

  it('of output items stay equal where they are equal, and different where they are different', () => {
    const done = {
      id: 'resp_p',
      status: 'completed',
      created_at: 9,
      output: [{ id: 'msg_B', type: 'message' }, { id: 'other' }],
    };
    const text = [
      event({ type: 'response.output_item.added', output_index: 0, item: { id: 'rs_A', type: 'reasoning' } }),
      event({ type: 'response.output_item.added', output_index: 1, item: { id: 'msg_B', type: 'message' } }),
      event({ type: 'response.output_text.delta', output_index: 1, item_id: 'msg_B' }),
      event({ type: 'response.output_text.delta', output_index: 0, item_id: 'other' }),
      event({ type: 'response.completed', response: done }),
    ].join('');
    const root = rootOf(otherId);
    const expected = text
      .replaceAll('"rs_A"', `"rs_${root}_0"`)
      .replaceAll('"msg_B"', `"msg_${root}_1"`)
      .replaceAll('"other"', `"item_${root}_2"`)
      .replaceAll('"resp_p"', `"resp_${root}"`)
      .replaceAll('"created_at":9', '"created_at":1893456000');
    expect(template('responses', true, text).render(second).toString()).toBe(expected);
  });

  it('are replaced by ids of the gateway in the response to store', () => {
    const picks = [3, 4, 0, 1];
    const text = streamOf(
      responseEvents(['hello']).map((tree) => written(tree, picks, valuesOf('resp_', first))),
      picks,
    );
    const stored = template('responses', true, text).response(second);
    expect(stored).toMatchObject({ id: `resp_${rootOf(otherId)}`, status: 'completed' });
    expect(JSON.parse(stored?.json ?? '')).toMatchObject({
      id: `resp_${rootOf(otherId)}`,
      created_at: second.createdAt,
      completed_at: second.completedAt,
      output: [{ id: `msg_${rootOf(otherId)}_0` }],
    });
    const whole = written(response(['hello']), picks, valuesOf('resp_', first));
    const made = template('responses', false, whole);
    expect(made.response(second)?.json).toBe(made.render(second).toString());
    expect(template('chat', false, written(chat('x'), picks, valuesOf('x', first))).response(second)).toBeUndefined();
  });
});

describe('the facts of an answer', () => {
  const facts = (dialect: string, stream: boolean, ...parts: unknown[]) =>
    template(
      dialect,
      stream,
      stream
        ? parts.map((part) => `data: ${typeof part === 'string' ? part : JSON.stringify(part)}\n\n`).join('')
        : JSON.stringify(parts[0]),
    ).facts;
  const choice = (index: number, finish_reason: string | null, delta = {}) => ({
    choices: [{ index, delta, finish_reason }],
  });

  it.each([
    ['without its end marker', [choice(0, 'stop')]],
    ['without a finish reason', [choice(0, null), '[DONE]']],
    ['with an unfinished choice', [choice(0, 'stop'), choice(1, null), '[DONE]']],
    ['with an error', [choice(0, 'stop'), { error: { message: 'overloaded' } }, '[DONE]']],
    ['without a choice', ['[DONE]']],
  ])('a chat stream %s is not whole', (_what, parts) => {
    expect(facts('chat', true, ...parts).isWhole).toBe(false);
  });

  it.each([
    ['responses', { type: 'response.completed', response: { status: 'incomplete' } }],
    ['responses', { type: 'response.created', response: { status: 'in_progress' } }],
    ['messages', { type: 'message_stop' }],
    ['messages', { type: 'message_delta', delta: { stop_reason: 'end_turn' } }],
  ])('a stream of %s without its regular end is not whole', (dialect, part) => {
    expect(facts(dialect, true, part).isWhole).toBe(false);
  });

  it('a stream with an error event after its end is not whole', () => {
    const completedEvent = { type: 'response.completed', response: { status: 'completed' } };
    expect(facts('responses', true, completedEvent).isWhole).toBe(true);
    expect(facts('responses', true, completedEvent, { type: 'error', message: 'x' }).isWhole).toBe(false);
  });

  it('name tool calls and the finish reason', () => {
    const call = choice(0, null, { tool_calls: [{ index: 0, id: 'call_1' }] });
    expect(facts('chat', true, call, choice(0, 'tool_calls'), '[DONE]')).toEqual({
      finishReason: 'tool_calls',
      hasToolCalls: true,
      hasEncryptedContent: false,
      isWhole: true,
    });
    const search = { status: 'completed', output: [{ type: 'web_search_call', id: 'ws_1' }] };
    expect(facts('responses', false, search)).toMatchObject({ finishReason: 'completed', hasToolCalls: true });
    const use = { stop_reason: 'tool_use', content: [{ type: 'tool_use', id: 'toolu_1' }] };
    expect(facts('messages', false, use)).toMatchObject({ finishReason: 'tool_use', hasToolCalls: true });
    expect(facts('embeddings', false, { data: [{}] })).toMatchObject({ finishReason: null, isWhole: true });
  });

  it('name reasoning that its provider encrypted, and not the form of the gateway', () => {
    const of = (encrypted_content: string) => ({
      status: 'completed',
      output: [{ type: 'reasoning', id: 'rs_1', encrypted_content }],
    });
    expect(facts('responses', false, of('gAAAAA')).hasEncryptedContent).toBe(true);
    expect(facts('responses', false, of('chancery.reasoning.1.e30')).hasEncryptedContent).toBe(false);
  });
});

describe('templateOf', () => {
  it.each([
    ['forward', false, '{"id":"a"}'],
    ['passthrough', false, '{"id":"a"}'],
    ['chat', false, '[]'],
    ['chat', false, '{"id":'],
    ['chat', false, ''],
    ['chat', true, 'data: {"id":\n\n'],
    ['responses', true, 'data: 1\n\n'],
  ])('does not reissue an answer of %s that it cannot read (stream: %s): %s', (dialect, stream, text) => {
    expect(templateOf(dialect, stream, Buffer.from(text))).toBeUndefined();
  });

  it('keeps a copy: the given buffer may be used again', () => {
    const bytes = Buffer.from('{"id":"a","choices":[]}');
    const made = templateOf('chat', false, bytes);
    bytes.fill(0);
    expect(made?.render(second).toString()).toBe(`{"id":"chatcmpl-${rootOf(otherId)}","choices":[]}`);
    expect(made?.bytes).toBeGreaterThanOrEqual(bytes.length);
  });
});
