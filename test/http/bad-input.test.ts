import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { rawAnswer } from '../support/raw-client.ts';
import { countOf } from '../support/seed.ts';
import {
  errorOf,
  eventsOfExchange,
  exchangeOf,
  expectEnvelope,
  json,
  user,
  withGateway,
} from '../support/with-gateway.ts';

const gateway = withGateway({ simulated: { responses: 'absent' }, env: { BODY_SIZE_LIMIT: '1M' } });

const model = 'llamacpp/simulated-small';
const chat = JSON.stringify({ model, messages: user('Reply with exactly: fine') });
const routes = ['/v1/chat/completions', '/v1/responses', '/v1/embeddings'] as const;

const post = (path: string, body: string | Buffer) => gateway.fetch(path, { method: 'POST', body });
const bytes = (...parts: (string | number)[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from([part]))));

describe.each(routes)('a body for %s', (path) => {
  it.each([
    ['empty', ''],
    ['only white space', ' \n\t '],
    ['cut off', chat.slice(0, -5)],
    ['an open brace', '{'],
    ['followed by more', `${chat} {}`],
    ['followed by rubbish', `${chat}x`],
    ['in single quotes', "{'model':'x'}"],
    ['with a comma too many', '{"model":"x",}'],
    ['NaN', '{"model":NaN}'],
    ['form data', 'model=x&input=y'],
    ['with a raw NUL byte in a text', '{"model":"a\u0000b"}'],
    ['with a raw line feed in a text', '{"model":"a\nb"}'],
    ['a bad escape', '{"model":"\\x41"}'],
    ['not UTF-8', bytes('{"model":"a', 0xff, 0xfe, '"}')],
    [
      'half a UTF-8 character',
      bytes(`{"model":"${model}","input":"hi`, 0xc3, '","messages":[{"role":"user","content":"hi"}]}'),
    ],
    ['UTF-16', Buffer.from(chat, 'utf16le')],
    ['binary', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
  ] as [string, string | Buffer][])('that is %s is not valid JSON', async (_what, body) => {
    expect(await errorOf(await post(path, body), 400)).toMatchObject({
      type: 'invalid_request_error',
      code: 'invalid_json',
      param: null,
    });
  });

  it.each([
    ['null', 'null'],
    ['an array', '[]'],
    ['a text', '"x"'],
    ['a number', '42'],
    ['true', 'true'],
    ['brackets in brackets', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
  ])('that is %s is refused as no object', async (_what, body) => {
    expect(await errorOf(await post(path, body), 400)).toMatchObject({ type: 'invalid_request_error', param: null });
  });

  it.each([
    ['missing', undefined, 'missing_required_parameter'],
    ['null', null, 'missing_required_parameter'],
    ['a number', 5, 'invalid_type'],
    ['an object', {}, 'invalid_type'],
    ['a list', ['x'], 'invalid_type'],
    ['empty', '', 'invalid_value'],
  ])('whose model is %s is refused for the model', async (_what, value, code) => {
    const body = { model: value, messages: user('hi'), input: 'hi' };
    expect(await errorOf(await gateway.post(path, body), 400)).toMatchObject({
      type: 'invalid_request_error',
      param: 'model',
      code,
      message: expect.stringContaining("'model'"),
    });
  });

  it('is not read through its prototype', async () => {
    const inherited = `{"__proto__":{"model":"${model}","input":"hi","messages":[]},"constructor":{"model":"x"}}`;
    expect(await errorOf(await post(path, inherited), 400)).toMatchObject({ param: 'model' });
  });

  it('over the limit is refused, announced or not', async () => {
    const big = `{"model":"${model}","input":"${'x'.repeat(1024 * 1024)}"}`;
    const error = {
      type: 'invalid_request_error',
      code: 'request_too_large',
      message: expect.stringContaining('1048576'),
    };
    expect(await errorOf(await post(path, big), 413)).toMatchObject(error);
    const stream = new Blob([big]).stream();
    const init = { method: 'POST', body: stream, duplex: 'half' } as RequestInit;
    expect(await errorOf(await gateway.fetch(path, init), 413)).toMatchObject(error);
  });

  it.each([
    ['brackets', '['.repeat(100_000)],
    ['braces', '{"a":'.repeat(100_000)],
  ])('that is a hundred thousand open %s is nested too deeply', async (_what, body) => {
    expect(await errorOf(await post(path, body), 400)).toMatchObject({
      type: 'invalid_request_error',
      code: 'nested_too_deeply',
      message: expect.stringContaining('REQUEST_MAX_DEPTH'),
    });
  });

  it('with deep nesting causes no failure', async () => {
    const well = `${'['.repeat(100_000)}1${']'.repeat(100_000)}`;
    const body = `{"model":"${model}","messages":[{"role":"user","content":"hi"}],"input":"hi","x":${well}}`;
    const answer = await post(path, body);
    const text = await answer.text();
    expect([200, 400], text.slice(0, 300)).toContain(answer.status);
  });

  it('with a repeated member is refused: a provider might take the other one', async () => {
    const body = `{"model":"nobody/x","model":"${model}","messages":[{"role":"user","content":"hi"}],"input":"hi"}`;
    expect(await errorOf(await post(path, body), 400)).toMatchObject({ code: 'repeated_member' });
  });
});

describe('a member of the wrong type', () => {
  it.each([
    ['messages', 'x', 'messages'],
    ['messages', {}, 'messages'],
    ['messages', [], 'messages'],
    ['messages', [1], 'messages[0]'],
    ['messages', [null], 'messages[0]'],
    ['messages', [{}], 'messages[0].role'],
    ['messages', [{ role: 5, content: 'hi' }], 'messages[0].role'],
    ['messages', [{ role: 'user', content: 'hi' }, { content: 'hi' }], 'messages[1].role'],
    ['stream', 'yes', 'stream'],
    ['stream', 1, 'stream'],
    ['stream_options', 'x', 'stream_options'],
  ])('is named: chat with %s = %j', async (member, value, param) => {
    const answer = await gateway.post('/v1/chat/completions', { model, messages: user('hi'), [member]: value });
    expect(await errorOf(answer, 400)).toMatchObject({
      type: 'invalid_request_error',
      param,
      message: expect.stringContaining(param),
    });
  });

  it.each([
    ['input', 42, 'input'],
    ['input', {}, 'input'],
    ['input', true, 'input'],
    ['input', [42], 'input[0]'],
    ['input', [null], 'input[0]'],
    ['input', [{ role: 5, content: 'hi' }], 'input[0].role'],
    ['input', [{ role: 'user', content: 5 }], 'input[0].content'],
    ['input', [{ role: 'user', content: [{ text: 'hi' }] }], 'input[0].content[0].type'],
    ['instructions', 5, 'instructions'],
    ['previous_response_id', 5, 'previous_response_id'],
    ['conversation', 5, 'conversation'],
    ['stream', 'yes', 'stream'],
    ['store', 'no', 'store'],
    ['background', 1, 'background'],
    ['temperature', 'hot', 'temperature'],
    ['max_output_tokens', 'many', 'max_output_tokens'],
    ['max_output_tokens', 1.5, 'max_output_tokens'],
    ['tools', 'x', 'tools'],
    ['tools', [{}], 'tools[0].type'],
    ['metadata', { a: 1 }, 'metadata.a'],
    ['metadata', 'x', 'metadata'],
    ['reasoning', 'high', 'reasoning'],
    ['text', 'x', 'text'],
    ['include', 'x', 'include'],
    ['truncation', 5, 'truncation'],
  ])('is named: a response with %s = %j', async (member, value, param) => {
    for (const stream of member === 'stream' ? [{}] : [{}, { stream: true }]) {
      const answer = await gateway.post('/v1/responses', { model, input: 'hi', ...stream, [member]: value });
      expect(await errorOf(answer, 400)).toMatchObject({
        type: 'invalid_request_error',
        param,
        message: expect.stringContaining(param),
      });
    }
  });

  it('is never an internal error, whatever the type', async () => {
    const value = fc.jsonValue({ maxDepth: 3 });
    const member = fc.constantFrom(
      ...'model messages input stream tools tool_choice text reasoning metadata instructions stream_options include provider max_output_tokens previous_response_id store n top_logprobs'.split(
        ' ',
      ),
    );
    const members = fc.dictionary(member, value, { maxKeys: 4 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...routes), members, async (path, more) => {
        const good = { model, messages: user('hi'), input: 'hi' };
        const answer = await gateway.post(path, {
          ...good,
          ...more,
          ...(more['model'] === undefined ? {} : { model }),
        });
        const text = await answer.text();
        expect(answer.status, text).not.toBe(500);
        expect(text).not.toContain('internal_error');
      }),
      { numRuns: countOf(38, 150) },
    );
  });
});

describe('the user path header', () => {
  const ask = (path: string) =>
    gateway.post('/v1/chat/completions', chat, { headers: { 'x-gateway-user-path': path } });

  it.each([
    ['/team/ann', '/team/ann'],
    ['team/ann', '/team/ann'],
    ['/team/ann/', '/team/ann'],
    ['/', '/'],
  ])('%s is recorded as %s', async (given, recorded) => {
    const events = await eventsOfExchange(gateway, exchangeOf(await ask(given)));
    expect(events.map(({ userPath }) => userPath)).toEqual(events.map(() => recorded));
  });

  it.each(['/team//ann', '/../etc', '/team/./ann', '/team/a nn', `/${'x'.repeat(600)}`, '/caf\u00e9'])(
    '%s is refused',
    async (given) => {
      const answer = await ask(given);
      expect(await errorOf(answer, 400)).toMatchObject({
        type: 'invalid_request_error',
        code: 'invalid_user_path',
        param: 'X-Gateway-User-Path',
      });
    },
  );

  it('sent twice is refused or one path, but never two', async () => {
    const twice = 'x-gateway-user-path: /a\r\nx-gateway-user-path: /b\r\n';
    const answer = await rawAnswer(
      gateway.url,
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${MASTER_KEY}\r\n${twice}` +
        `content-length: ${chat.length}\r\n\r\n${chat}`,
    );
    expect(answer?.status).toBe(400);
    expectEnvelope(JSON.parse(answer?.body.toString() ?? ''));
  });
});

describe('after all of this', () => {
  it('the same gateway works as before, and nothing is left open', async () => {
    const answer = await gateway.post('/v1/chat/completions', chat);
    expect((await json(answer)).choices[0].message.content).toBe('fine');
    const metrics = await (await gateway.fetch('/metrics')).text();
    expect(metrics).toMatch(/^gateway_requests_in_flight 0$/m);
    expect(metrics).not.toMatch(/^gateway_requests_total\{[^}]*status_code="500"/m);
    expect((await fetch(`${gateway.url}/health/ready`)).status).toBe(200);
  });
});
