/** langchain-openai, unchanged, against a gateway: `python/langchain_client.py`. */
import { describe, expect, it } from 'vitest';
import { both } from '../support/both-kinds.ts';
import { ways, withBothKindsForPython } from '../support/python-both-kinds.ts';
import { describeScenarios } from '../support/python-scenarios.ts';

const program = withBothKindsForPython('langchain_client.py', { LANGSMITH_TRACING: 'false' });
const sunny = 'The result is: sunny in Paris; sunny in Rome';

describeScenarios('langchain-openai', program, (seen) => {
  describe.each(ways)('on %s, %s', (_api, _kind, way) => {
    it('is invoked, and streams', () => {
      expect(seen('invoked', way)).toEqual({ text: 'hello', tokens: 1 });
      expect(seen('streamed', way)).toEqual({ pieces: true, usage: true, same: true });
      expect(seen('asynchronous', way)).toEqual({ streamed: 'hello', batch: ['one', 'two'] });
    });

    it('calls the tools it is bound to, and uses their results', () => {
      expect(seen('tool_loop', way)).toEqual([sunny, sunny]);
    });

    it('structures its output', () => {
      expect(seen('structured', way)).toEqual({ json_schema: 'Place', function_calling: 'Place' });
    });

    it('sends back the words of the model', () => {
      expect(seen('remembered', way)).toBe('The secret is rosebud.');
    });

    it('raises when a stream is interrupted, in a text or in a tool call', () => {
      const interrupted = { some: true, error: expect.objectContaining({ error: expect.any(String) }) };
      expect(seen('interrupted_text', way)).toEqual([interrupted, interrupted]);
      expect(seen('interrupted_tool', way)).toEqual(interrupted);
    });

    it('raises the errors of a provider', () => {
      const error = (name: string, code = 'unlucky') => ({
        error: name,
        message: expect.stringContaining('no luck'),
        code,
      });
      expect(seen('errors', way)).toMatchObject({
        400: error('OpenAIInvalidRequestError'),
        401: error('OpenAIAPIError', 'provider_credentials_refused'),
        404: error('OpenAIModelNotFoundError'),
        429: error('OpenAIRateLimitError'),
        500: error('OpenAIAPIError'),
        stream: { message: expect.stringContaining('out of memory') },
      });
    });
  });

  it.each(both)('continues from a response by its id, %s', (_kind, model) => {
    expect(seen('previous_response', model)).toEqual({ by_id: 'Your name is Ada.', automatic: 'Your name is Ada.' });
  });

  it('embeds', () => {
    expect(seen('embeddings')).toEqual({ one: true });
  });
});
