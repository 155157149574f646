/** OpenAI's own package for Python, unchanged, against a gateway: `python/openai_client.py`. */
import { afterAll, describe, expect, it } from 'vitest';
import { both } from '../support/both-kinds.ts';
import { withBothKindsForPython } from '../support/python-both-kinds.ts';
import { describeScenarios } from '../support/python-scenarios.ts';
import { startToolServer } from '../support/tool-server.ts';

const server = await startToolServer();
afterAll(() => server.close());
const settings = { MCP_SERVERS: JSON.stringify([{ name: 'Weather', slug: 'weather', url: server.url }]) };
const program = withBothKindsForPython('openai_client.py', {}, settings);

describeScenarios("OpenAI's package for Python", program, (seen) => {
  describe.each(both)('with a provider that is %s', (_kind, model) => {
    it('chats, whole and as a stream', () => {
      expect(seen('chat', model)).toEqual({
        text: 'hello',
        finish: 'stop',
        usage: true,
        request_id: expect.stringMatching(/./),
      });
      expect(seen('chat_stream', model)).toEqual({ text: 'hello', finish: 'stop', tokens: 1 });
    });

    it('calls tools in a chat, and uses their results', () => {
      expect(seen('chat_tool_loop', model)).toEqual({ calls: 2, text: 'The result is: sunny in Paris; sunny in Rome' });
    });

    it('parses the answer into a class', () => {
      expect(seen('chat_parse', model)).toEqual({ type: 'Place', same: true });
      expect(seen('response_parse', model)).toEqual({ type: 'Place', same: true });
    });

    it('creates responses, whole and as streams', () => {
      expect(seen('response', model)).toEqual({ text: 'hello', status: 'completed', tokens: 1 });
      expect(seen('response_stream', model)).toEqual({
        text: 'hello',
        first: 'response.created',
        last: 'response.completed',
      });
    });

    it('calls tools in a response, and continues with its output or by its id', () => {
      const text = 'The result is: sunny in Paris; sunny in Rome';
      const types = ['reasoning', 'function_call', 'function_call'];
      expect(seen('response_tool_loop', model)).toEqual({ types, whole: text, by_id: text });
    });

    it('reads the calls of tools that the gateway makes, and approves one', () => {
      const text = 'The result is: sunny in Paris';
      const types = ['McpListTools', 'McpCall', 'ParsedResponseOutputMessage'];
      expect(seen('response_mcp', model)).toEqual({ types, output: 'sunny in Paris', text, approved: text });
    });

    it('retrieves, lists and deletes a response', () => {
      const deleted = expect.objectContaining({ error: 'NotFoundError', status_code: 404 });
      expect(seen('response_lifecycle', model)).toEqual({ same: true, items: 25, deleted });
    });

    it('cancels a response in the background', () => {
      expect(seen('response_background', model)).toEqual({ created: 'queued', cancelled: 'cancelled' });
    });

    it('creates responses over a WebSocket', () => {
      expect(seen('response_websocket', model)).toEqual({ text: 'hello', again: 'again', missing: 'error' });
    });

    it('works asynchronously too', () => {
      expect(seen('asynchronous', model)).toEqual({ response: 'hello', chat: 'hello' });
    });

    /** Some text came, no item was announced as done, and the end is an exception. */
    const interrupted = { some: true, done: [], error: expect.objectContaining({ error: 'APIError' }) };
    /** A provider that announced its items as done, and then ended without a terminal event. */
    const unfinished = {
      ...interrupted,
      done: expect.not.arrayContaining(['response.completed', 'response.incomplete']),
    };

    it('raises when a chat stream is interrupted, in a text or in a tool call', () => {
      expect(seen('interrupted_chat', model)).toEqual([interrupted, interrupted]);
      expect(seen('interrupted_chat_tool', model)).toEqual(interrupted);
      expect(seen('interrupted_completion', model)).toEqual([interrupted, interrupted]);
    });

    it('raises when the stream of a response is interrupted, in a text or in a tool call', () => {
      expect(seen('interrupted_response', model)).toEqual([interrupted, unfinished]);
      expect(seen('interrupted_response_tool', model)).toEqual(interrupted);
      expect(seen('interrupted_response_helper', model)).toMatchObject({ error: 'APIError' });
    });
  });

  it.each<[number, string, number?, string?]>([
    [400, 'BadRequestError'],
    [401, 'InternalServerError', 502, 'provider_credentials_refused'],
    [403, 'PermissionDeniedError'],
    [404, 'NotFoundError'],
    [409, 'ConflictError'],
    [422, 'UnprocessableEntityError'],
    [429, 'RateLimitError'],
    [500, 'InternalServerError'],
    [503, 'InternalServerError'],
  ])("raises its own error for a provider's %i", (status, error, seenStatus = status, code = 'unlucky') => {
    const one = {
      error,
      status_code: seenStatus,
      code,
      message: expect.stringContaining('no luck'),
      request_id: expect.stringMatching(/./),
    };
    expect(seen('provider_error', String(status))).toMatchObject({
      chat: one,
      chat_stream: one,
      response: one,
      response_stream: one,
    });
  });

  it('raises its own errors for those of the gateway', () => {
    expect(seen('gateway_errors')).toMatchObject({
      key: { error: 'AuthenticationError' },
      model: { error: 'NotFoundError', code: 'model_not_found', param: 'model' },
      input: { error: 'BadRequestError', code: 'missing_required_parameter', param: 'input' },
      previous: { error: 'NotFoundError', code: 'previous_response_not_found', param: 'previous_response_id' },
      path: { error: 'NotFoundError' },
    });
  });

  it('raises when a provider reports an error in a stream', () => {
    const error = { error: 'APIError', message: expect.stringContaining('out of memory') };
    expect(seen('error_in_stream')).toMatchObject({ chat: error, response: error });
  });

  it('lists the models, and finds one by its id', () => {
    expect(seen('models')).toMatchObject({
      ids: expect.arrayContaining(both.map(([, id]) => id)),
      one: 'llamacpp/simulated-small',
      unknown: { error: 'NotFoundError', code: 'model_not_found' },
    });
  });

  it('embeds, with numbers in base64 and as they are', () => {
    expect(seen('embeddings')).toEqual({ lengths: [8, 8], close: true });
  });

  it('stores files and runs batches', () => {
    expect(seen('files')).toEqual({ listed: true, content: '{"a":1}\n', name: 'lines.jsonl', deleted: true });
    expect(seen('batches')).toEqual({ status: 'completed', listed: true, text: 'hello' });
  });

  it('continues a conversation', () => {
    expect(seen('conversations')).toEqual({
      text: 'Your name is Ada.',
      items: ['message', 'message', 'message', 'message'],
      gone: expect.objectContaining({ error: 'NotFoundError' }),
    });
  });

  it('generates images and speech, and transcribes', () => {
    expect(seen('images_and_audio')).toEqual({
      picture: true,
      sound: true,
      heard: expect.stringContaining('good day'),
    });
  });
});
