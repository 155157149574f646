/** pydantic-ai, unchanged, against a gateway: `python/pydantic_ai_client.py`. */
import { describe, expect, it } from 'vitest';
import { ways, withBothKindsForPython } from '../support/python-both-kinds.ts';
import { describeScenarios } from '../support/python-scenarios.ts';

const program = withBothKindsForPython('pydantic_ai_client.py');
const sunny = 'The result is: sunny in Paris; sunny in Rome';

describeScenarios('pydantic-ai', program, (seen) => {
  describe.each(ways)('on %s, %s', (_api, _kind, way) => {
    it('runs an agent, whole and as a stream', () => {
      expect(seen('run', way)).toEqual({ text: 'hello', tokens: 1 });
      expect(seen('streamed', way)).toEqual({ pieces: true, usage: true });
    });

    it('calls tools, and uses their results', () => {
      const called = [
        ['Paris', 'Rome'],
        ['Paris', 'Rome'],
      ];
      expect(seen('tool_loop', way)).toEqual({ called, whole: sunny, streamed: sunny });
    });

    it('structures its output', () => {
      expect(seen('structured', way)).toEqual({ ToolOutput: 'Place', NativeOutput: 'Place' });
    });

    it('sends back the words of the model', () => {
      expect(seen('remembered', way)).toBe('The secret is rosebud.');
    });

    it('raises when a stream is interrupted, in a text or in a tool call, and calls no tool', () => {
      const interrupted = { output: null, error: expect.objectContaining({ error: expect.any(String) }) };
      expect(seen('interrupted_text', way)).toEqual([interrupted, interrupted]);
      expect(seen('interrupted_tool', way)).toEqual({ called: [], ...interrupted });
    });

    it('raises the errors of a provider', () => {
      expect(seen('errors', way)).toMatchObject({
        400: { error: 'ModelRequestRejectedError', status_code: 400 },
        401: { error: 'ModelServerError', status_code: 502 },
        404: { error: 'ModelNotFoundError', status_code: 404 },
        429: { error: 'ModelRateLimitError', status_code: 429 },
        500: { error: 'ModelServerError', status_code: 500 },
      });
    });
  });
});
