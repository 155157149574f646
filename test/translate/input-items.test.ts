import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { referencedItemIds, resolveItemReferences } from '../../src/commands/responses/archive.ts';
import { mergeHistory } from '../../src/commands/responses/history.ts';
import {
  pageInputItems,
  responseOfItem,
  storedInputItems,
  uuidFromName,
} from '../../src/commands/responses/input-items.ts';
import { openAiPageIn } from '../../src/http/paging.ts';
import type { Query } from '../../src/http/request-head.ts';

const responseId = 'resp_1a2b';
const stored = (input: unknown) => storedInputItems(input, responseId);

describe('stored input items', () => {
  it('of a text are a user message with an input_text', () => {
    expect(stored('hi')).toEqual([
      {
        id: expect.stringMatching(/^msg_[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
        type: 'message',
        role: 'user',
        content: [{ type: 'input_text', text: 'hi' }],
      },
    ]);
  });

  it('of a response of the gateway have ids that contain its id', () => {
    const root = '0123456789abcdef0123456789abcdef';
    const [first, second] = storedInputItems([{ role: 'user', content: 'a' }, { type: 'x' }], `resp_${root}`);
    expect([first?.id, second?.id]).toEqual([`msg_${root}_i0`, `msg_${root}_i1`]);
    for (const item of [first, second]) expect(responseOfItem(item?.id ?? '')).toBe(`resp_${root}`);
    expect(responseOfItem(`fc_${root}_12`)).toBe(`resp_${root}`);
    for (const other of ['msg_1', `msg_${root}`, `msg_${root}_`, `msg_${root}_x1`, `${root}_0`, `msg_${root}_0 `]) {
      expect(responseOfItem(other)).toBeUndefined();
    }
  });

  it('keep the ids they came with', () => {
    expect(stored([{ id: 'msg_x', role: 'user', content: 'hi' }])[0]?.id).toBe('msg_x');
  });

  it('of calls and their outputs have ids made of the call id', () => {
    const call = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' };
    const output = { type: 'function_call_output', call_id: 'c1', output: 'ok' };
    expect(stored([call, output])).toEqual([
      { ...call, id: 'fc_c1' },
      { ...output, id: 'fco_c1' },
    ]);
  });

  it('have ids that are the same at every read, and differ by place, type and response', () => {
    const input = [
      { role: 'user', content: 'hi' },
      { role: 'user', content: 'hi' },
      { type: 'reasoning', summary: [] },
    ];
    const ids = stored(input).map((item) => item.id);
    expect(stored(input).map((item) => item.id)).toEqual(ids);
    expect(new Set([...ids, ...storedInputItems(input, 'resp_other').map((item) => item.id)]).size).toBe(6);
  });

  it.each([
    ['text of a user', 'user', 'hi', [{ type: 'input_text', text: 'hi' }]],
    ['text of the assistant', 'assistant', 'hi', [{ type: 'output_text', text: 'hi' }]],
    ['a text part', 'user', [{ type: 'text', text: 'hi' }], [{ type: 'input_text', text: 'hi' }]],
    [
      'an image in chat form',
      'user',
      [{ type: 'image_url', image_url: { url: 'https://x', detail: 'low' } }],
      [{ type: 'input_image', image_url: 'https://x', detail: 'low' }],
    ],
    [
      'an image in its own form',
      'user',
      [{ type: 'input_image', image_url: 'https://x', detail: 'low' }],
      [{ type: 'input_image', image_url: 'https://x', detail: 'low' }],
    ],
    ['an unknown part', 'user', [{ type: 'hologram', x: 1 }], [{ type: 'hologram', x: 1 }]],
    ['no content', 'user', null, []],
  ])('have their content in OpenAI’s form: %s', (_name, role, content, expected) => {
    expect(stored([{ role, content }])[0]).toMatchObject({ role, content: expected });
  });

  it('are messages of a user when they have neither type nor role', () => {
    expect(stored([{ content: 'hi' }])[0]).toMatchObject({ type: 'message', role: 'user' });
  });

  it('of unknown types are kept as sent', () => {
    const item = { type: 'computer_call', action: { x: 1 } };
    expect(stored([item])[0]).toMatchObject(item);
  });

  it('are named by version 5 UUIDs', () => {
    fc.assert(
      fc.property(fc.string(), (name) => {
        expect(uuidFromName(name)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
        expect(uuidFromName(name)).toBe(uuidFromName(name));
      }),
    );
  });
});

describe('a page of input items', () => {
  const items = Array.from({ length: 130 }, (_, index) => ({ id: `msg_${index}`, type: 'message' }));

  function page(query: Query, of = items) {
    return pageInputItems(of, openAiPageIn(query));
  }

  it('is the last 20, newest first, by default', () => {
    const { data, ...rest } = page({});
    expect(data.map((item) => item.id)).toEqual(Array.from({ length: 20 }, (_, index) => `msg_${129 - index}`));
    expect(rest).toEqual({ object: 'list', first_id: 'msg_129', last_id: 'msg_110', has_more: true });
  });

  it.each([
    ['5', 5],
    ['100', 100],
    ['', 20],
  ])('has for limit %j that many items: %i', (limit, count) => {
    expect(page({ limit }).data).toHaveLength(count);
  });

  it.each([
    ['limit', { limit: 'ten' }],
    ['limit', { limit: '1.5' }],
    ['limit', { limit: '101' }],
    ['limit', { limit: '0' }],
    ['limit', { limit: '-3' }],
    ['order', { order: 'newest' }],
  ])('is refused for a wrong %s', (param, query) => {
    expect(() => page(query)).toThrow(expect.objectContaining({ status: 400, param }));
  });

  it('begins after the item that `after` names', () => {
    expect(page({ order: 'asc', after: 'msg_1', limit: '2' }).data.map((item) => item.id)).toEqual(['msg_2', 'msg_3']);
  });

  it('has no more after it when it is the last, also when it is full', () => {
    expect(page({ order: 'asc', after: 'msg_29', limit: '100' })).toMatchObject({
      last_id: 'msg_129',
      has_more: false,
    });
  });

  it('is empty after an unknown item, and at the end', () => {
    const empty = { object: 'list', data: [], first_id: null, last_id: null, has_more: false };
    expect(page({ after: 'msg_x' })).toEqual(empty);
    expect(page({ order: 'asc', after: 'msg_129' })).toEqual(empty);
    expect(page({}, [])).toEqual(empty);
  });

  it('leads through all items, each once, in either order', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 100 }), fc.constantFrom('asc', 'desc'), (limit, order) => {
        const seen: string[] = [];
        let after: string | undefined;
        for (let more = true; more; ) {
          const next = page({ limit: String(limit), order, after });
          seen.push(...next.data.map((item) => item.id));
          after = next.last_id ?? undefined;
          more = next.has_more;
        }
        const ids = items.map((item) => item.id);
        expect(seen).toEqual(order === 'asc' ? ids : ids.toReversed());
      }),
    );
  });
});

describe('history', () => {
  const turns = [
    {
      input_items: stored('Who are you?'),
      output: [
        { id: 'rs_1', type: 'reasoning', status: 'completed', summary: [{ type: 'summary_text', text: 'Hm.' }] },
        {
          id: 'msg_1',
          type: 'message',
          status: 'completed',
          role: 'assistant',
          content: [
            { type: 'output_text', text: '', annotations: [], logprobs: [] },
            { type: 'output_text', text: 'Ada.', annotations: [{ type: 'file_path' }], logprobs: [] },
          ],
        },
      ],
    },
    {
      input_items: stored('Call f.'),
      output: [{ id: 'fc_1', type: 'function_call', status: 'completed', call_id: '1', name: 'f', arguments: '{}' }],
    },
  ];

  it('comes before the new input, oldest first, without the members that are only stored', () => {
    expect(mergeHistory(turns, [{ type: 'function_call_output', call_id: '1', output: 'ok', id: 'fco_1' }])).toEqual([
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Who are you?' }] },
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Hm.' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Ada.' }] },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Call f.' }] },
      { type: 'function_call', call_id: '1', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: '1', output: 'ok', id: 'fco_1' },
    ]);
  });

  it.each(['function_call', 'custom_tool_call'])('is without an incomplete %s', (type) => {
    const call = { id: 'c_2', type, call_id: '2', name: 'f', arguments: '{"pa' };
    const cut = { input_items: [], output: [{ ...call, status: 'incomplete' }] };
    const whole = { input_items: [], output: [{ ...call, status: 'completed' }] };
    expect(mergeHistory([cut], [])).toEqual([]);
    expect(mergeHistory([whole], [])).toHaveLength(1);
  });

  it('takes a new text as a user message', () => {
    expect(mergeHistory([], 'hi')).toEqual([{ type: 'message', role: 'user', content: 'hi' }]);
  });

  it('leaves the stored items unchanged', () => {
    const before = structuredClone(turns);
    mergeHistory(turns, 'hi');
    expect(turns).toEqual(before);
  });
});

describe('item references', () => {
  const input = [
    { type: 'item_reference', id: 'msg_1' },
    { role: 'user', content: 'And now?' },
  ];
  const said = { id: 'msg_1', type: 'message', role: 'assistant', content: [] };

  it('are the items they name', () => {
    expect(referencedItemIds(input)).toEqual(['msg_1']);
    expect(resolveItemReferences(input, (id) => (id === 'msg_1' ? said : undefined))).toEqual({
      ok: true,
      input: [said, input[1]],
    });
  });

  it('are 404 when the item is unknown, and never left out', () => {
    expect(resolveItemReferences([{ role: 'user' }, ...input], () => undefined)).toEqual({
      ok: false,
      refusal: { status: 404, code: 'item_not_found', param: 'input[1].id', message: "Item 'msg_1' was not found." },
    });
  });

  it('name `input` for an item of earlier turns, and the index for one of the request', () => {
    const named = [input[0], { role: 'user' }, { type: 'item_reference', id: 'msg_2' }].filter(
      (item) => item !== undefined,
    );
    const refused = (earlier: number, has: string) =>
      resolveItemReferences(named, (id) => (id === has ? said : undefined), { earlier });
    expect(refused(1, 'msg_2')).toMatchObject({ refusal: { param: 'input' } });
    expect(refused(1, 'msg_1')).toMatchObject({ refusal: { param: 'input[1].id' } });
  });

  it('are not found in a text', () => {
    expect(referencedItemIds('hi')).toEqual([]);
  });
});
