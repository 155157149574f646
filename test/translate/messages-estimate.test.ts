import { describe, expect, it } from 'vitest';
import { estimateInputTokens } from '../../src/commands/messages/messages-request.ts';

const count = (content: unknown, more: object = {}) =>
  estimateInputTokens({ messages: [{ role: 'user', content }], ...more });

describe('the estimate of tokens', () => {
  it('is about one token for a word, a sign, or a character of a script without spaces', () => {
    const frame = count('');
    expect(count('What is the capital of France? Reply with the city name only.') - frame).toBe(14);
    expect(count('internationalization') - frame).toBe(3);
    expect(count('let total = 12345;') - frame).toBe(6);
    expect(count('東京の天気') - frame).toBe(5);
  });

  it('grows with everything that a model reads', () => {
    const least = count('hi');
    const tool = { name: 'look', description: 'Looks at it.', input_schema: { type: 'object' } };
    const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'A'.repeat(100) } };
    const plain = { type: 'document', source: { type: 'text', data: 'some words of a document' } };
    const parts = {
      type: 'document',
      title: 'T',
      source: { type: 'content', content: [{ type: 'text', text: 'some' }] },
    };
    const pdf = {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: 'A'.repeat(200_000) },
    };
    for (const more of [
      count('hi there'),
      count('hi', { system: 'Be brief.' }),
      count('hi', { system: [{ type: 'text', text: 'Be brief.' }] }),
      count('hi', { tools: [tool] }),
      count([{ type: 'text', text: 'hi' }, image]),
      count([{ type: 'text', text: 'hi' }, plain]),
      count([{ type: 'text', text: 'hi' }, parts]),
      count([{ type: 'text', text: 'hi' }, pdf]),
      count([
        { type: 'text', text: 'hi' },
        { type: 'tool_use', name: 'look', input: { at: 'sky' } },
      ]),
      count([
        { type: 'text', text: 'hi' },
        { type: 'tool_result', tool_use_id: 'a', content: [{ type: 'text', text: 'x' }] },
      ]),
      count([
        { type: 'text', text: 'hi' },
        { type: 'thinking', thinking: 'Hm.', signature: 'x'.repeat(1000) },
      ]),
    ]) {
      expect(more).toBeGreaterThan(least);
    }
    expect(count([{ type: 'text', text: 'hi' }, pdf])).toBeGreaterThan(count([{ type: 'text', text: 'hi' }, image]));
  });

  it('is computed for malformed members too', () => {
    for (const odd of [null, 1, [], [null, 1, 'x'], {}, [{ type: 'document' }], [{ type: 'tool_use' }]]) {
      expect(count(odd)).toBeGreaterThan(0);
    }
    expect(estimateInputTokens({ messages: [null, 'x'], tools: [null, {}] })).toBeGreaterThan(0);
  });
});
