/** Anthropic's own package for Python, unchanged, against a gateway: `python/anthropic_client.py`. */
import { describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { both, native, translated, withMessageKinds } from '../support/message-kinds.ts';
import { describeScenarios } from '../support/python-scenarios.ts';

const { gateway, anthropic } = withMessageKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });

const program = {
  program: 'anthropic_client.py',
  variables: () => ({ GATEWAY_URL: gateway.url, GATEWAY_KEY: MASTER_KEY }),
  providerOf: (model: string) => (model === native ? anthropic : gateway.simulated),
};

describeScenarios("Anthropic's package for Python", program, (seen) => {
  describe.each(both)('with a provider that is %s', (_kind, model) => {
    it('creates messages, whole and as streams', () => {
      expect(seen('message', model)).toEqual({
        text: 'hello',
        stop: 'end_turn',
        usage: true,
        request_id: expect.stringMatching(/./),
      });
      expect(seen('message_stream', model)).toEqual({
        text: 'hello',
        final: 'hello',
        usage: true,
        types: [
          'message_start',
          'content_block_start',
          'content_block_delta',
          'content_block_stop',
          'message_delta',
          'message_stop',
        ],
      });
      expect(seen('asynchronous', model)).toBe('hello');
    });

    it('assembles reasoning', () => {
      expect(seen('thinking', model)).toEqual(['thinking', 'text']);
    });

    it('calls tools, and uses their results', () => {
      const text = 'The result is: sunny in Paris; sunny in Rome';
      expect(seen('tool_loop', model)).toEqual({ stop: 'tool_use', calls: 2, text });
      expect(seen('tool_runner', model)).toBe(text);
    });

    it('parses the answer into a class', () => {
      expect(seen('parsed', model)).toBe('Place');
    });

    it('counts tokens', () => {
      expect(seen('counted', model)).toBe(true);
    });

    it('raises when a stream is interrupted, in a text or in a tool call', () => {
      const interrupted = { some: true, stopped: false, error: expect.objectContaining({ error: expect.any(String) }) };
      expect(seen('interrupted_text', model)).toEqual([interrupted, interrupted]);
      expect(seen('interrupted_tool', model)).toEqual(interrupted);
      expect(seen('interrupted_helper', model)).toMatchObject({ error: expect.any(String) });
    });

    it('raises when a provider reports an error in a stream', () => {
      expect(seen('error_in_stream', model)).toMatchObject({ message: expect.stringContaining('out of memory') });
    });
  });

  it.each<[number, string, number?]>([
    [400, 'BadRequestError'],
    [401, 'InternalServerError', 502],
    [403, 'PermissionDeniedError'],
    [404, 'NotFoundError'],
    [409, 'ConflictError'],
    [413, 'ContentTooLargeError'],
    [422, 'UnprocessableEntityError'],
    [429, 'RateLimitError'],
    [500, 'InternalServerError'],
    [503, 'ServiceUnavailableError'],
    [529, 'OverloadedError'],
  ])("raises its own error for a provider's %i", (status, error, seenStatus = status) => {
    const one = { error, status_code: seenStatus, message: expect.stringContaining('no luck') };
    expect(seen('provider_error', String(status))).toMatchObject({ [translated]: one, [native]: one });
  });

  it('raises its own errors for those of the gateway', () => {
    expect(seen('gateway_errors')).toMatchObject({
      key: { error: 'AuthenticationError' },
      model: { error: 'NotFoundError' },
      messages: { error: 'BadRequestError' },
    });
  });

  it('accepts the key as a bearer token, too', () => {
    expect(seen('bearer')).toBe('hello');
  });

  it('lists the models, and finds one by its id', () => {
    expect(seen('models')).toEqual({ ids: expect.arrayContaining([translated, native]), one: translated });
  });
});
