import { describe, expect, it } from 'vitest';
import { errorCodeOf, mapUpstreamError } from '../../src/providers/upstream-error.ts';

describe("the code of a provider's error", () => {
  it.each([
    ['its own', { code: 'unlucky', message: 'x' }, 'unlucky'],
    ['its own, though the message says more', { code: 'x', message: 'prompt is too long' }, 'x'],
    [
      'that of its type, when it tells a size',
      { code: 400, type: 'exceed_context_size_error' },
      'context_length_exceeded',
    ],
    ['that of its type, when it tells a quota', { code: null, type: 'insufficient_quota' }, 'insufficient_quota'],
    [
      'told by its message',
      { code: 400, message: "This model's maximum context length is 8192 tokens." },
      'context_length_exceeded',
    ],
    [
      'told by its message, elsewhere',
      { message: 'prompt is too long: 9 tokens > 8 maximum' },
      'context_length_exceeded',
    ],
    ['a number, as a word', { code: 1234, message: 'x' }, '1234'],
    ['nothing', { message: 'x', code: '' }, undefined],
  ])('is %s', (_what, error, code) => {
    expect(errorCodeOf(error)).toBe(code);
  });

  it('is the same for the client of a whole answer and of a stream', () => {
    const error = {
      code: 400,
      message: 'the request exceeds the available context size',
      type: 'exceed_context_size_error',
    };
    const body = Buffer.from(JSON.stringify({ error }));
    expect(mapUpstreamError({ status: 400, headers: {}, body, provider: { name: 'local' } })).toMatchObject({
      status: 400,
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
      provider: 'local',
    });
  });
});
