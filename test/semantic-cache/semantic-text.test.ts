import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  MAX_TEXT_LENGTH,
  type SemanticDialect,
  type SemanticTextOptions,
  semanticText,
} from '../../src/commands/semantic-cache/semantic-cache.ts';
import { countOf } from '../support/seed.ts';

const options: SemanticTextOptions = { maxMessages: 3, excludeSystemPrompt: false };
const user = (content: unknown) => ({ role: 'user', content });
const chat = (...messages: unknown[]) => ({ model: 'm', temperature: 0, messages });

describe('semanticText', () => {
  it.each<[SemanticDialect, Record<string, unknown>, Record<string, unknown>]>([
    [
      'chat',
      chat({ role: 'system', content: 'be short' }, user('hello')),
      chat({ role: 'system', content: 'be short' }, user(null)),
    ],
    [
      'chat',
      chat(user('a'), { role: 'assistant', content: 'b', tool_calls: [] }, user('hello')),
      chat(user('a'), { role: 'assistant', content: 'b', tool_calls: [] }, user(null)),
    ],
    [
      'messages',
      { system: 's', max_tokens: 9, messages: [user([{ type: 'text', text: 'hello', cache_control: { a: 1 } }])] },
      { system: 's', max_tokens: 9, messages: [user([{ type: 'text', text: null, cache_control: { a: 1 } }])] },
    ],
    ['responses', { instructions: 'i', input: 'hello' }, { instructions: 'i', input: null }],
    [
      'responses',
      { input: [{ type: 'message', ...user([{ type: 'input_text', text: 'hello' }]) }], previous_response_id: null },
      { input: [{ type: 'message', ...user([{ type: 'input_text', text: null }]) }], previous_response_id: null },
    ],
  ])('separates the last text of the user in %s from everything else', (dialect, body, rest) => {
    expect(semanticText(dialect, body, options)).toEqual({ text: 'hello', rest });
  });

  it('embeds all parts of the last message', () => {
    const parts = ['one', 'two'].map((text) => ({ type: 'text', text }));
    expect(semanticText('chat', chat(user(parts)), options)?.text).toBe('one\n\ntwo');
  });

  /** Responses repeat their instructions, so these are always compared. */
  it.each<[SemanticDialect, Record<string, unknown>]>([
    ['chat', chat({ role: 'system', content: 's' }, { role: 'developer', content: 'd' }, user('hello'))],
    ['messages', { system: [{ type: 'text', text: 's' }], messages: [user('hello')] }],
    ['responses', { instructions: 'i', input: [{ role: 'system', content: 's' }, user('hello')] }],
  ])('leaves the system prompt of %s out where it is excluded', (dialect, body) => {
    const found = semanticText(dialect, body, { ...options, excludeSystemPrompt: true });
    const rest = { ...body, [dialect === 'responses' ? 'input' : 'messages']: [user(null)] };
    delete rest.system;
    expect(found).toEqual({ text: 'hello', rest });
  });

  const assistant = { role: 'assistant', content: 'b' };
  it.each<[string, SemanticDialect, Record<string, unknown>]>([
    ['a longer conversation', 'chat', chat(user('a'), assistant, user('b'), user('hello'))],
    ['no message of the user', 'chat', chat({ role: 'system', content: 'hello' })],
    ['no messages', 'chat', chat()],
    ['an answer that the model continues', 'messages', { messages: [user('hello'), assistant] }],
    ['an empty text', 'chat', chat(user(' \n'))],
    ['no text', 'chat', chat(user([]))],
    ['a long text', 'chat', chat(user('x'.repeat(MAX_TEXT_LENGTH + 1)))],
    [
      'an image',
      'chat',
      chat(
        user([
          { type: 'text', text: 'hello' },
          { type: 'image_url', image_url: { url: 'u' } },
        ]),
      ),
    ],
    ['an earlier image', 'chat', chat(user([{ type: 'image_url', image_url: { url: 'u' } }]), user('hello'))],
    ['audio', 'chat', chat(user([{ type: 'input_audio', input_audio: {} }]))],
    ['an earlier answer with audio', 'chat', chat({ ...assistant, audio: { id: 'a' } }, user('hello'))],
    ['a result of a tool', 'chat', chat(user('a'), { role: 'tool', content: 'r', tool_call_id: 'c' }, user('hello'))],
    ['a call of a tool', 'chat', chat({ role: 'assistant', content: '', tool_calls: [{ id: 'c' }] }, user('hello'))],
    ['an old call of a function', 'chat', chat({ ...assistant, function_call: { name: 'f' } }, user('hello'))],
    ['a message without content', 'chat', chat({ role: 'assistant' }, user('hello'))],
    ['an unknown role', 'chat', chat({ role: 'critic', content: 'a' }, user('hello'))],
    ['a message that is none', 'chat', chat('a', user('hello'))],
    ['a text where a list belongs', 'chat', { messages: 'hello' }],
    ['a result of a tool in messages', 'messages', { messages: [user([{ type: 'tool_result', content: 'r' }])] }],
    [
      'a document',
      'messages',
      {
        messages: [
          user([
            { type: 'document', source: {} },
            { type: 'text', text: 'a' },
          ]),
        ],
      },
    ],
    ['a file', 'responses', { input: [user([{ type: 'input_file', file_id: 'f' }])] }],
    ['a reference', 'responses', { input: [{ type: 'item_reference', id: 'i' }, user('hello')] }],
    ['reasoning', 'responses', { input: [{ type: 'reasoning', summary: [] }, user('hello')] }],
    ['a stored conversation', 'responses', { input: 'hello', conversation: 'c' }],
    ['a stored response', 'responses', { input: 'hello', previous_response_id: 'r' }],
    ['no input', 'responses', { model: 'm' }],
  ])('does not search a request with %s', (_, dialect, body) => {
    expect(semanticText(dialect, body, options)).toBeUndefined();
  });

  it('counts messages of the user and of the model only', () => {
    const body = chat({ role: 'system', content: 's' }, user('a'), assistant, user('hello'));
    expect(semanticText('chat', body, options)).toBeDefined();
    expect(semanticText('chat', body, { ...options, maxMessages: 2 })).toBeUndefined();
    expect(semanticText('responses', { input: 'hello' }, { ...options, maxMessages: 0 })).toBeUndefined();
  });
});

const word = fc.constantFrom('a', 'b', 'c');
const part = fc.record({ type: fc.constant('text'), text: word }, { requiredKeys: ['type', 'text'] });
const content = fc.oneof(word, fc.array(part, { maxLength: 2 }));
const message = fc.record({ role: fc.constantFrom('system', 'user', 'assistant'), content });
const body = fc.record(
  {
    model: word,
    temperature: fc.constantFrom(0, 1),
    tools: fc.array(word, { maxLength: 1 }),
    messages: fc.array(message, { maxLength: 4 }),
  },
  { requiredKeys: ['messages'] },
);

/** The body with this text for each part of the last message that is not of the system. */
function withText({ messages, ...others }: { readonly messages: readonly { role: string; content: unknown }[] }) {
  const last = messages.findLastIndex(({ role }) => role !== 'system');
  const blank = (given: unknown) => (Array.isArray(given) ? given.map((one: object) => ({ ...one, text: '*' })) : '*');
  return {
    ...others,
    messages: messages.map((one, at) => (at === last ? { ...one, content: blank(one.content) } : one)),
  };
}

describe('two requests with the same rest', () => {
  it('are equal but for the embedded text, and two that are equal but for it have the same rest', () => {
    fc.assert(
      fc.property(body, body, (one, other) => {
        const [first, second] = [semanticText('chat', one, options), semanticText('chat', other, options)];
        if (first === undefined || second === undefined) return;
        const sameRest = JSON.stringify(first.rest) === JSON.stringify(second.rest);
        expect(sameRest).toBe(JSON.stringify(withText(one)) === JSON.stringify(withText(other)));
      }),
      { numRuns: countOf(750, 3000) },
    );
  });

  it('change nothing of the body that was given', () => {
    fc.assert(
      fc.property(body, (given) => {
        const before = structuredClone(given);
        semanticText('chat', given, { ...options, excludeSystemPrompt: true });
        expect(given).toEqual(before);
      }),
    );
  });
});
