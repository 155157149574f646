import { describe, expect, it } from 'vitest';
import { missingTokens, OutputCount } from '../../../src/commands/exchange/record/spending.ts';
import { readUsage, unknownUsage } from '../../../src/commands/model-request/usage.ts';

function tokensOf(dialect: string, ...bodies: (string | undefined)[]): number | undefined {
  const count = new OutputCount(dialect);
  for (const body of bodies) count.add(body === undefined ? undefined : Buffer.from(body));
  const bytes = bodies.reduce((sum, body) => sum + (body?.length ?? 300), 0);
  return count.tokens({ chunks: bodies.length, bytes })[0];
}
const frame = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const delta = (content: string) => frame({ choices: [{ delta: { content } }] });

describe('the output tokens of a recorded stream', () => {
  it('are a quarter of the bytes of text, or one for each event with text if that is more', () => {
    expect(tokensOf('chat', delta('x'.repeat(400)))).toBe(100);
    expect(tokensOf('chat', delta('a'), delta('b'), frame({ choices: [{ delta: {} }] }))).toBe(2);
  });

  it('are the same however the provider cut its bytes', () => {
    const text = delta('one ') + delta('two words') + delta('ünïcode');
    for (let at = 1; at < Buffer.byteLength(text); at++) {
      const bytes = Buffer.from(text);
      const count = new OutputCount('passthrough');
      count.add(bytes.subarray(0, at));
      count.add(bytes.subarray(at));
      expect(count.tokens({ chunks: 2, bytes: bytes.length })).toEqual([6]);
    }
  });

  it('count an event that was cut off in the middle as nothing, and lines of JSON like events', () => {
    expect(tokensOf('chat', delta('abcd'), 'data: {"choices":[{"delta":{"content":"ab')).toBe(1);
    expect(tokensOf('ollama_chat', '{"message":{"content":"abcdefgh"}}\n')).toBe(2);
  });

  it('count text of a Responses stream once, and no audio', () => {
    const said = { type: 'response.output_text.delta', delta: 'abcdefgh' };
    const whole = { type: 'response.output_text.done', text: 'abcdefgh' };
    const audio = { type: 'response.output_audio.delta', delta: 'AAAA'.repeat(1000) };
    expect(tokensOf('responses', frame(said), frame(whole), frame(audio))).toBe(2);
  });

  it('are estimated from number and size where bodies are not kept', () => {
    expect(tokensOf('chat', undefined, undefined, undefined)).toBe(38);
  });
});

describe('the charge beyond the reported usage', () => {
  const reported = readUsage({ input_tokens: 7, output_tokens: 10 });

  it('is everything where no usage was reported', () => {
    expect(missingTokens(unknownUsage, 5, 6)).toEqual({ inputTokens: 5, outputTokens: 6 });
  });

  it('is zero while no more than twice the reported output was received', () => {
    expect(missingTokens(reported, 5, 20)).toBeUndefined();
    expect(missingTokens(reported, 5, 21)).toEqual({ inputTokens: 7, outputTokens: 21 });
  });
});
