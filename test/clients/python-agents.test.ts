/** openai-agents, unchanged, against a gateway: `python/agents_client.py`. */
import { describe, expect, it } from 'vitest';
import { both } from '../support/both-kinds.ts';
import { ways, withBothKindsForPython } from '../support/python-both-kinds.ts';
import { describeScenarios } from '../support/python-scenarios.ts';

const program = withBothKindsForPython('agents_client.py', { OPENAI_AGENTS_DISABLE_TRACING: '1' });
const sunny = 'The result is: sunny in Paris; sunny in Rome';

describeScenarios("OpenAI's agents for Python", program, (seen) => {
  describe.each(ways)('on %s, %s', (_api, _kind, way) => {
    it('runs an agent, whole and as a stream', () => {
      expect(seen('run', way)).toEqual({ text: 'hello', tokens: 1 });
      expect(seen('streamed', way)).toEqual({ pieces: true, same: true });
    });

    it('calls tools, and uses their results', () => {
      const called = ['Paris', 'Rome', 'Paris', 'Rome'];
      expect(seen('tool_loop', way)).toEqual({ called, whole: sunny, streamed: sunny });
    });

    it('structures its output', () => {
      expect(seen('structured', way)).toBe('Place');
    });

    it('continues in a session', () => {
      expect(seen('session', way)).toBe('Your name is Ada.');
    });

    it('raises when a stream is interrupted, in a text or in a tool call, and calls no tool', () => {
      const interrupted = { output: null, error: expect.objectContaining({ error: expect.any(String) }) };
      expect(seen('interrupted_text', way)).toEqual([interrupted, interrupted]);
      expect(seen('interrupted_tool', way)).toEqual({ called: [], ...interrupted });
    });

    it('raises the errors of a provider', () => {
      const error = (name: string, code = 'unlucky') => ({
        error: name,
        message: expect.stringContaining('no luck'),
        code,
      });
      expect(seen('errors', way)).toMatchObject({
        400: error('BadRequestError'),
        401: error('InternalServerError', 'provider_credentials_refused'),
        404: error('NotFoundError'),
        429: error('RateLimitError'),
        500: error('InternalServerError'),
      });
    });
  });

  it.each(both)('continues from a response, and in a conversation, stored by the gateway, %s', (_kind, model) => {
    expect(seen('kept_by_the_gateway', model)).toEqual({
      by_id: 'Your name is Ada.',
      in_conversation: 'Your name is Eve.',
    });
  });
});
