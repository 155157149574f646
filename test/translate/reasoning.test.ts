/** A model's reasoning: how clients get it, and how it comes back in the next turn of a client that keeps it itself. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ResponseEvent } from '../../src/providers/translate/chat-to-responses/response-object.ts';
import {
  createChatStreamTranslator,
  responseFromChat,
} from '../../src/providers/translate/chat-to-responses/stream.ts';
import { chatMessages } from '../../src/providers/translate/responses-to-chat/items-to-chat-messages.ts';
import {
  carriedForm,
  isCarriedItem,
  mergedExtra,
  plainReasoning,
  readCarried,
} from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { checkStream } from './openai-shape.ts';
import { completedAt, shellFor } from './shells.ts';

const says = (delta: object) => ({ choices: [{ index: 0, delta }] });
const signed = { anthropic: { thinking_blocks: [{ signature: 'c2ln' }] } };
const chatCall = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } });
const callOf = (id: string) => ({ index: 0, id, function: { name: 'f', arguments: '{}' } });

function play(chunks: readonly object[], include: readonly string[] = []) {
  const translator = createChatStreamTranslator(shellFor({ include }));
  const events = chunks.flatMap((chunk) => translator.push(chunk));
  events.push(...translator.finish({ completedAt, endMarker: true }));
  return { events, response: checkStream(events) };
}

const typesOf = (events: readonly ResponseEvent[]) =>
  events.map(({ type }) => type).filter((type) => type.includes('reasoning') || type.includes('content_part'));

/** The assistant's message as the provider gets it back. */
function givenBack(items: readonly unknown[], style = plainReasoning) {
  const result = chatMessages({ input: items }, style);
  if (!result.ok) throw new Error(result.refusal.message);
  return result.messages;
}

describe('reasoning is streamed', () => {
  const thinking = [says({ reasoning_content: 'H' }), says({ reasoning_content: 'm.' })];

  it('as a summary by default', () => {
    const { events, response } = play(thinking);
    expect(typesOf(events)).toEqual([
      'response.reasoning_summary_part.added',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.delta',
      'response.reasoning_summary_text.done',
      'response.reasoning_summary_part.done',
    ]);
    expect(response.output[0]).toEqual({
      id: 'rs_1a2b_0',
      type: 'reasoning',
      status: 'completed',
      summary: [{ type: 'summary_text', text: 'Hm.' }],
    });
  });

  it('as raw text to a client that includes reasoning.content', () => {
    const { events, response } = play(thinking, ['reasoning.content']);
    expect(typesOf(events)).toEqual([
      'response.content_part.added',
      'response.reasoning_text.delta',
      'response.reasoning_text.delta',
      'response.reasoning_text.done',
      'response.content_part.done',
    ]);
    expect(response.output[0]).toEqual({
      id: 'rs_1a2b_0',
      type: 'reasoning',
      status: 'completed',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'Hm.' }],
    });
    expect(response.include).toEqual(['reasoning.content']);
  });

  it.each([
    ['after the reasoning', [...thinking, says({ extra_content: signed }), says({ content: 'Hi' })]],
    ['with the text', [...thinking, says({ content: 'Hi', extra_content: signed })]],
    ['at the end', [...thinking, says({ content: 'Hi' }), says({ extra_content: signed })]],
  ])('and the extra content of the message %s is on the message', (_when, chunks) => {
    const { output } = play(chunks).response;
    expect(output).toMatchObject([{ type: 'reasoning' }, { type: 'message', extra_content: signed }]);
    expect(output[0]).not.toHaveProperty('extra_content');
  });

  it('as an item without a text when it is hidden and a tool is called, so that its signature is not lost', () => {
    const { events, response } = play([says({ extra_content: signed }), says({ tool_calls: [callOf('call_a')] })]);
    expect(response.output).toMatchObject([
      { type: 'reasoning', summary: [], extra_content: signed },
      { type: 'function_call' },
    ]);
    expect(typesOf(events)).toEqual([]);
  });
});

describe('encrypted_content', () => {
  const include = ['reasoning.encrypted_content'];

  it('is on a reasoning item when it is whole, and only for a client that includes it', () => {
    const { events, response } = play([says({ reasoning_content: 'Hm.' }), says({ content: 'Hi' })], include);
    const added = events.find(({ type }) => type === 'response.output_item.added');
    expect(added).toMatchObject({ item: { type: 'reasoning' } });
    expect(JSON.stringify(added)).not.toContain('encrypted_content');
    const [item] = response.output;
    const carried = item?.type === 'reasoning' ? item.encrypted_content : undefined;
    expect(readCarried(carried)).toMatchObject({ text: 'Hm.', extra: undefined });
    expect(JSON.stringify(play([says({ reasoning_content: 'Hm.' })]).response)).not.toContain('encrypted_content');
  });

  it('comes back as the reasoning of the next turn, also when the client kept nothing else of the item', () => {
    const message = {
      role: 'assistant',
      content: null,
      reasoning_content: 'Hm.',
      extra_content: signed,
      tool_calls: [chatCall('call_a')],
    };
    const answer = responseFromChat({ choices: [{ message }] }, shellFor({ store: false, include }), completedAt);
    if (!answer.ok) throw new Error(answer.error.message);
    const kept = answer.response.output.map((item) => {
      if (item.type !== 'reasoning') return item;
      return { type: 'reasoning', summary: [], encrypted_content: item.encrypted_content };
    });
    const result = { type: 'function_call_output', call_id: 'call_a', output: 'ok' };
    expect(givenBack([{ role: 'user', content: 'hi' }, ...kept, result])[1]).toEqual(message);
  });

  it('carries the extra content of a call, which clients do not keep, also without visible reasoning', () => {
    const calls = ['call_a', 'call_b'].map((id) => ({ ...chatCall(id), extra_content: { v: { signature: id } } }));
    for (const thought of [{}, { reasoning_content: 'Hm.' }]) {
      const message = { role: 'assistant', content: 'Let me see.', ...thought, tool_calls: calls };
      const answer = responseFromChat({ choices: [{ message }] }, shellFor({ store: false, include }), completedAt);
      if (!answer.ok) throw new Error(answer.error.message);
      const kept = answer.response.output.map((item) => {
        const { extra_content: _dropped, ...known }: Record<string, unknown> = { ...item };
        return known;
      });
      expect(givenBack([{ role: 'user', content: 'hi' }, ...kept])[1]).toEqual(message);
    }
  });

  it('gives a vendor its own extra content back where reasoning as text is not accepted', () => {
    const item = { type: 'reasoning', summary: [], encrypted_content: carriedForm({ text: 'Hm.', extra: signed }) };
    const said = { role: 'assistant', content: 'Yes.' };
    expect(givenBack([item, said], { ...plainReasoning, replay: 'omit' })).toEqual([
      { ...said, extra_content: signed },
    ]);
  });

  it.each([
    ['of another provider', 'gAAAAABo'],
    ['that was cut off', carriedForm({ text: 'Hm. '.repeat(20), extra: undefined }).slice(0, 40)],
    ['that holds no reasoning', `chancery.reasoning.1.${Buffer.from('[1]').toString('base64url')}`],
    ['that is null', null],
  ])('%s is ignored in favour of the summary', (_what, encrypted_content) => {
    const item = { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Short.' }], encrypted_content };
    expect(givenBack([item, { role: 'assistant', content: 'Yes.' }])[0]).toMatchObject({
      reasoning_content: 'Short.',
    });
  });

  it('holds any text and any extra content, and is a third larger', () => {
    const extras = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue());
    const calls = fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), extras)).map((entries) => new Map(entries));
    const extra = fc.option(extras, { nil: undefined });
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), extra, calls, (text, extra, calls) => {
        const form = carriedForm({ text, extra, calls });
        expect(isCarriedItem({ type: 'reasoning', encrypted_content: form })).toBe(true);
        const read = readCarried(form);
        expect(JSON.stringify([read?.text, read?.extra])).toBe(JSON.stringify([text, extra]));
        expect(JSON.stringify(Object.fromEntries(read?.calls ?? []))).toBe(JSON.stringify(Object.fromEntries(calls)));
        const said = Buffer.byteLength(
          JSON.stringify({ text, extra_content: extra, calls: Object.fromEntries(calls) }),
        );
        expect(form.length).toBeLessThanOrEqual(Math.ceil((said * 4) / 3) + 32);
      }),
    );
  });

  it('is read from any string without throwing', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(() => readCarried(text)).not.toThrow();
        expect(() => readCarried(`chancery.reasoning.1.${text}`)).not.toThrow();
      }),
    );
  });
});

describe('extra content that comes in pieces', () => {
  it('is put together: lists are joined, objects merged, and the later of two other values wins', () => {
    const before = { v: { list: [1], kept: 'a', changed: 1 } };
    const after = { v: { list: [2], changed: 2 }, w: null };
    expect(mergedExtra(before, after)).toEqual({ v: { list: [1, 2], kept: 'a', changed: 2 }, w: null });
    expect(mergedExtra(undefined, after)).toBe(after);
    expect(mergedExtra(before, undefined)).toBe(before);
  });

  it('may have members of any name', () => {
    const odd = JSON.parse('{"__proto__":{"a":1}}');
    expect(JSON.stringify(mergedExtra(odd, { b: 2 }))).toBe('{"__proto__":{"a":1},"b":2}');
  });

  it('goes back with the tool output and with the message it was given with', () => {
    expect(
      givenBack([
        { role: 'user', content: 'hi' },
        { type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' },
        { role: 'assistant', content: 'Wait.', extra_content: { v: { b: 2 } } },
        { type: 'function_call_output', call_id: 'a', output: 'no', extra_content: { anthropic: { is_error: true } } },
      ]).slice(1),
    ).toMatchObject([
      { role: 'assistant', content: 'Wait.', extra_content: { v: { b: 2 } } },
      { role: 'tool', content: 'no', extra_content: { anthropic: { is_error: true } } },
    ]);
  });
});
