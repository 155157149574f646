import { describe, expect, test } from 'vitest';
import { isErrorBody, type MappedError, mapUpstreamError } from '../../src/providers/upstream-error.ts';
import { recorded, recordedBody } from './upstream.ts';

function map(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
  redact?: (text: string) => string,
): MappedError {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return mapUpstreamError({ status, headers, body: Buffer.from(text), provider: { name: 'local', redact } });
}

const openAi = { error: { message: 'no', type: 'whatever', code: 'bad_thing', param: 'model' } };

describe('the status decides the type', () => {
  test.each([
    [400, 400, 'invalid_request_error'],
    [401, 401, 'authentication_error'],
    [403, 403, 'authentication_error'],
    [404, 404, 'not_found_error'],
    [409, 409, 'invalid_request_error'],
    [422, 422, 'invalid_request_error'],
    [429, 429, 'rate_limit_error'],
    [500, 500, 'provider_error'],
    [503, 503, 'provider_error'],
    [529, 529, 'provider_error'],
    [302, 502, 'provider_error'],
    [200, 502, 'provider_error'],
    [999, 502, 'provider_error'],
  ])('%i becomes %i %s', (status, mapped, type) => {
    expect(map(status, openAi)).toMatchObject({
      status: mapped,
      type,
      code: 'bad_thing',
      message: 'no',
      param: 'model',
    });
  });

  test('an error in a 200 answer may have its own status', () => {
    expect(map(200, { error: { code: 429, message: 'slow down' } })).toMatchObject({
      status: 429,
      type: 'rate_limit_error',
      code: null,
    });
  });
});

describe('the message is found in', () => {
  test.each<[string, unknown, Partial<MappedError>]>([
    ['an error that is a string', { error: 'model not loaded' }, { message: 'model not loaded' }],
    ['an error that is a string beside a code', { error: 'x', code: 'y' }, { message: 'x', code: 'y' }],
    [
      'a flat object',
      { object: 'error', message: 'no such model', code: 1500 },
      { message: 'no such model', code: '1500' },
    ],
    ['a detail', { detail: 'Not Found' }, { message: 'Not Found' }],
    [
      'a list of details',
      { detail: [{ loc: ['body', 'messages'], msg: 'Field required', type: 'missing' }, { msg: 'and so on' }] },
      { message: 'body.messages: Field required; and so on' },
    ],
    [
      'details inside a message',
      { object: 'error', message: { detail: [{ loc: ['body', 'x'], msg: 'Extra inputs are not permitted' }] } },
      { message: 'body.x: Extra inputs are not permitted' },
    ],
    [
      'a list of errors',
      [{ error: { code: 400, message: 'bad key', status: 'INVALID_ARGUMENT' } }],
      { message: 'bad key' },
    ],
    ['plain text', 'upstream connect error', { message: 'upstream connect error' }],
    ['a JSON string', '"nope"', { message: 'nope' }],
    ['an unknown object', { error: { message: { why: 'odd' } } }, { message: '{"why":"odd"}' }],
    [
      'the title of a web page',
      '<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>',
      { message: '502 Bad Gateway' },
    ],
    [
      'a web page without a title',
      '<html><body>oops</body></html>',
      { message: 'the provider answered with a web page' },
    ],
  ])('%s', (_name, body, expected) => {
    expect(map(400, body)).toMatchObject(expected);
  });

  test.each(['', '  \n', '{}', '[]', 'null', '{"error":{}}', '{"error":null}'])(
    'the status when the body is %j',
    (body) => {
      expect(map(502, body).message).toBe('provider local answered with status 502 (Bad Gateway)');
    },
  );

  test('a page by its content type', () => {
    expect(map(500, '<h1>Oops</h1>', { 'content-type': 'text/html; charset=utf-8' }).message).toBe(
      'the provider answered with a web page',
    );
  });
});

describe('the code', () => {
  test('is null when it only repeats the status', () => {
    expect(map(501, { error: { code: 501, message: 'no' } }).code).toBeNull();
    expect(map(501, { error: { code: '501', message: 'no' } }).code).toBeNull();
  });

  test('that is another number is kept as text', () => {
    expect(map(400, { error: { code: 1301, message: 'no' } }).code).toBe('1301');
  });

  test('is null for null, an empty text or an object', () => {
    for (const code of [null, '', {}]) expect(map(400, { error: { code, message: 'no' } }).code).toBeNull();
  });
});

test.each([
  ['chat.error.badjson', 500, 'provider_error', /parse error/],
  ['chat.error.nomessages', 500, 'provider_error', /key 'messages' not found/],
  ['embeddings.error.pooling', 400, 'invalid_request_error', /^Pooling type 'none'/],
  ['rerank.error', 501, 'provider_error', /does not support reranking/],
  ['responses.error.absent', 404, 'not_found_error', /^File Not Found$/],
])("llama.cpp's recorded %s is a %i %s", (name, status, type, message) => {
  const pair = recorded(name);
  const mapped = map(pair.response.status, recordedBody(pair), { 'content-type': pair.response.content_type });
  expect(mapped).toMatchObject({ status, type, code: null, param: null, provider: 'local' });
  expect(mapped.message).toMatch(message);
});

describe('secrets in a message are redacted', () => {
  test.each([
    [
      'Incorrect API key provided: sk-proj-abcdefgh12345678. You can',
      'Incorrect API key provided: [redacted]. You can',
    ],
    ['Incorrect API key provided: sk-12345***********6789.', 'Incorrect API key provided: [redacted].'],
    ['got header Bearer abc.def-ghi, expected', 'got header Bearer [redacted], expected'],
    ['key gsk_abcdefghijklmnop and xai-abcdefghijkl', 'key [redacted] and [redacted]'],
    ['key AIzaSyA1234567890abcdefghij is bad', 'key [redacted] is bad'],
  ])('%j', (message, expected) => {
    expect(map(401, { error: { message } }).message).toBe(expected);
  });

  test('also the configured keys of the provider, in every member', () => {
    const redact = (text: string): string => text.replaceAll('hunter2', '[redacted]');
    const error = { message: 'key hunter2', code: 'bad-hunter2', param: 'hunter2' };
    expect(map(401, { error }, {}, redact)).toMatchObject({
      message: 'key [redacted]',
      code: 'bad-[redacted]',
      param: '[redacted]',
    });
  });

  test('also at the end of a shortened message', () => {
    const message = `${'x'.repeat(1990)} sk-abcdefghijklmnopqrstuvwxyz`;
    expect(map(400, { error: { message } }).message).not.toContain('sk-a');
  });
});

test('a message is bounded and stays well-formed', () => {
  const { message } = map(400, { error: { message: `x${'😀'.repeat(5000)}` } });
  expect(message.length).toBeLessThanOrEqual(2000);
  expect(message.isWellFormed()).toBe(true);
  expect(message.endsWith('…')).toBe(true);
});

test('Retry-After is kept as sent, and read from its precise form', () => {
  expect(map(429, openAi, { 'retry-after': '7' }).retryAfter).toBe('7');
  expect(map(503, openAi, { 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }).retryAfter).toBe(
    'Wed, 21 Oct 2026 07:28:00 GMT',
  );
  expect(map(429, openAi, { 'retry-after-ms': '1200' }).retryAfter).toBe('2');
  expect(map(429, openAi, { 'retry-after': '7', 'retry-after-ms': '1200' }).retryAfter).toBe('7');
  expect(map(429, openAi, { 'retry-after-ms': 'soon' })).not.toHaveProperty('retryAfter');
  expect(map(429, openAi)).not.toHaveProperty('retryAfter');
});

describe('an error body', () => {
  test.each([
    [{ error: { message: 'no' } }],
    [{ error: 'no' }],
    [{ error: {}, user_id: 'u' }],
    [[{ error: { code: 400 } }]],
    [{ choices: [], error: { message: 'partial' } }],
    [{ choices: [{ index: 0, delta: { content: '' }, finish_reason: 'error' }], error: { code: 502, message: 'no' } }],
    [{ choices: [{ index: 0, delta: {}, finish_reason: 'error', error: { code: 502, message: 'no' } }] }],
    [{ choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop' }, { finish_reason: 'error' }] }],
    [{ error: true, message: 'no' }],
    [{ object: 'error', message: 'no', type: 'BadRequestError', code: 400 }],
    [{ detail: 'no' }],
    [{ text: 'no', error_code: 50002 }],
  ])('is %j', (body) => {
    expect(isErrorBody(body)).toBe(true);
  });

  test('beside a part of an answer is mapped like any other', () => {
    const error = { code: 503, message: 'overloaded' };
    const choice = { index: 0, delta: {}, finish_reason: 'error' };
    const mapped = { status: 503, message: 'overloaded', code: null };
    expect(map(200, { error, choices: [choice] })).toMatchObject(mapped);
    expect(map(200, { choices: [{ ...choice, error }] })).toMatchObject(mapped);
    expect(map(200, { choices: [choice] })).toMatchObject({
      status: 502,
      message: expect.stringContaining('ended its answer with an error without details'),
    });
  });

  test('that is flat has the status within it', () => {
    const flat = { object: 'error', message: 'too long', type: 'BadRequestError', code: 400 };
    expect(map(200, flat)).toMatchObject({ status: 400, message: 'too long' });
    expect(map(200, { text: 'NETWORK ERROR', error_code: 50002 })).toMatchObject({
      status: 502,
      message: 'NETWORK ERROR',
    });
  });

  test.each([
    ['invalid_request_error', 400],
    ['exceed_context_size_error', 400],
    ['rate_limit_error', 429],
    ['insufficient_quota', 429],
    ['server_error', 502],
    ['new_error', 502],
  ])('of the type %s in a 200 answer has the status %i', (type, status) => {
    expect(map(200, { error: { type, message: 'no' } })).toMatchObject({ status });
  });

  test.each([
    ['rate_limit_exceeded', 429],
    ['invalid_prompt', 400],
    ['server_error', 502],
  ])('with the code %s in a 200 answer has the status %i', (code, status) => {
    expect(map(200, { error: { code, message: 'no' } })).toMatchObject({ status, code });
  });

  test('that is cut off gives the beginning of its message', () => {
    const cut = JSON.stringify({ error: { message: `The "prompt" is\nwrong: ${'x'.repeat(3000)}` } }).slice(0, 2900);
    expect(map(400, cut).message).toMatch(/^The "prompt" is\nwrong: x+…$/);
  });

  test.each([
    [{ choices: [{ index: 0, delta: { content: 'error' }, finish_reason: null }] }],
    [{ choices: [{ index: 0, message: { content: 'a' }, finish_reason: 'stop', error: null }], error: null }],
    [{ data: [], error: null }],
    [{ object: 'response', status: 'failed', error: { code: 'x', message: 'no' }, output: [] }],
    [{ object: 'response', error: { code: 'x' } }],
    [{ error: null }],
    [{ error: '' }],
    [{}],
    [[]],
    [null],
    ['error'],
    [7],
  ])('is not %j', (body) => {
    expect(isErrorBody(body)).toBe(false);
  });
});

describe("Anthropic's errors", () => {
  const anthropic = (type: string, message = 'no') => ({
    type: 'error',
    error: { type, message },
    request_id: 'req_1',
  });

  test.each([
    [400, 'invalid_request_error', 'invalid_request_error', null],
    [401, 'authentication_error', 'authentication_error', null],
    [402, 'billing_error', 'invalid_request_error', 'billing_error'],
    [403, 'permission_error', 'authentication_error', null],
    [404, 'not_found_error', 'not_found_error', null],
    [413, 'request_too_large', 'invalid_request_error', 'request_too_large'],
    [429, 'rate_limit_error', 'rate_limit_error', null],
    [500, 'api_error', 'provider_error', null],
    [529, 'overloaded_error', 'provider_error', 'overloaded_error'],
  ])('%i %s becomes %s with the code %s, also in the middle of a stream', (status, theirs, type, code) => {
    const expected = { status, type, code, message: 'no' };
    expect(map(status, anthropic(theirs))).toMatchObject(expected);
    expect(map(200, anthropic(theirs))).toMatchObject(expected);
    expect(isErrorBody(anthropic(theirs))).toBe(true);
  });

  test('of an unknown type is a bad answer in the middle of a stream', () => {
    expect(map(200, anthropic('new_error'))).toMatchObject({ status: 502, code: null });
  });

  test('have the code of their details, which clients use to decide on the next request', () => {
    const error = {
      type: 'invalid_request_error',
      message: 'no',
      details: { error_code: 'thread_unsupported_request' },
    };
    expect(map(400, { type: 'error', error })).toMatchObject({ status: 400, code: 'thread_unsupported_request' });
  });

  test('about a prompt that is too long have a code for it', () => {
    const tooLong = anthropic('invalid_request_error', 'prompt is too long: 210000 tokens > 200000 maximum');
    expect(map(400, tooLong)).toMatchObject({ status: 400, code: 'context_length_exceeded' });
  });
});
