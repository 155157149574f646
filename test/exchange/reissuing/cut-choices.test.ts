import { describe, expect, it } from 'vitest';
import { templateOf } from '../../../src/commands/exchange/reissuing/reissued-answer.ts';

const envelope = { id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm' };
const message = { role: 'assistant', content: 'words' };

describe('a recorded answer with several choices', () => {
  it.each([
    [['stop', 'stop'], true],
    [['length', 'stop'], false],
    [['stop', 'length'], false],
    [['stop', 'content_filter'], false],
    [['stop', null], false],
  ])('with the finish reasons %j is whole: %s', (reasons, isWhole) => {
    const choices = reasons.map((finish_reason, index) => ({ index, finish_reason, message }));
    const json = Buffer.from(JSON.stringify({ ...envelope, choices }));
    expect(templateOf('chat', false, json)?.facts.isWhole).toBe(isWhole);
    const chunks = reasons.map((finish_reason, index) => ({
      ...envelope,
      choices: [{ index, finish_reason, delta: message }],
    }));
    const frames = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`);
    expect(templateOf('chat', true, Buffer.from(frames.join('')))?.facts.isWhole).toBe(isWhole);
  });
});
