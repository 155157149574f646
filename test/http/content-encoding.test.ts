/** Encoded request bodies: decoded within the limit of their route, or refused. */
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, user, withGateway } from '../support/with-gateway.ts';

const scripted = await startScriptedProvider();
afterAll(() => scripted.close());
const LIMIT = 1024 * 1024;
const gateway = withGateway({
  register: (url) => ({ LLAMACPP_BASE_URL: url, OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk' }),
  env: { BODY_SIZE_LIMIT: '1M' },
});

const CHAT = '/v1/chat/completions';
const chat = (text = 'Reply with exactly: fine') =>
  Buffer.from(JSON.stringify({ model: 'llamacpp/simulated-small', messages: user(text) }));
const brotli = (body: Buffer) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
const encoders: readonly [string, (body: Buffer) => Buffer][] = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotli],
  ['zstd', zstdCompressSync],
  ['GZIP', gzipSync],
  ['identity', (body) => body],
  ['gzip, br', (body) => brotli(gzipSync(body))],
];

function send(path: string, encoding: string, body: Buffer, type = 'application/json', key?: string) {
  const headers: Record<string, string> = { 'content-type': type, 'content-encoding': encoding };
  if (key !== undefined) headers['authorization'] = `Bearer ${key}`;
  return gateway.fetch(path, { method: 'POST', headers, body: new Uint8Array(body) });
}

/** A form of a recording, as bytes. */
async function form(bytes: number): Promise<{ type: string; body: Buffer }> {
  const form = new FormData();
  form.append('model', 'openai/scripted');
  form.append('file', new Blob([new Uint8Array(bytes)]), 'a.wav');
  const request = new Request('http://x', { method: 'POST', body: form });
  return { type: request.headers.get('content-type') ?? '', body: Buffer.from(await request.arrayBuffer()) };
}

/** A frame that demands a window of 128 MiB for its few bytes (RFC 8878 §3.1.1.1.2). */
function largeWindow(body: Buffer): Buffer {
  const block = Buffer.alloc(3);
  block.writeUIntLE((body.length << 3) | 1, 0, 3);
  return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x88]), block, body]);
}

describe('a JSON body', () => {
  it('in a zstd frame with a window of more than 8 MiB is refused', async () => {
    expect(zstdDecompressSync(largeWindow(chat()))).toEqual(chat());
    expect((await errorOf(await send(CHAT, 'zstd', largeWindow(chat())), 400)).message).toMatch(/memory|window/i);
  });

  it.each(encoders)('encoded with %s is decoded', async (encoding, encode) => {
    const answer = await send(CHAT, encoding, encode(chat()));
    expect((await json(answer)).choices[0].message.content).toBe('fine');
    const [received] = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(received?.body).toBe(chat().toString());
  });

  it.each(encoders.filter(([name]) => name !== 'identity'))(
    'that exceeds the limit when decoded is refused with 413: %s',
    async (encoding, encode) => {
      const bomb = encode(chat('x'.repeat(64 * LIMIT)));
      expect(bomb.length).toBeLessThan(LIMIT / 4);
      const before = process.memoryUsage().arrayBuffers;
      expect((await errorOf(await send(CHAT, encoding, bomb), 413)).code).toBe('request_too_large');
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 * LIMIT);
    },
  );

  it.each(['compress', 'gzip, bogus', 'gzip, gzip, gzip', 'utf-8'])('in %s is refused with 415', async (encoding) => {
    const answer = await send(CHAT, encoding, gzipSync(chat()));
    expect(answer.headers.get('accept-encoding')).toBe('gzip, deflate, br, zstd');
    expect(await errorOf(answer, 415)).toMatchObject({ code: 'unsupported_content_encoding' });
  });

  it.each([
    ['is not encoded', chat()],
    ['breaks off', gzipSync(chat()).subarray(0, -12)],
  ])('that %s as stated is refused with 400', async (_about, body) => {
    expect((await errorOf(await send(CHAT, 'gzip', body), 400)).code).toBe('malformed_content_encoding');
  });

  it('may begin with a byte order mark', async () => {
    const body = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), chat()]);
    expect((await json(await send(CHAT, 'identity', body))).choices[0].message.content).toBe('fine');
    expect((await json(await send(CHAT, 'gzip', gzipSync(body)))).choices[0].message.content).toBe('fine');
    const conversation = Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from('{}')]);
    expect((await send('/v1/conversations', 'identity', conversation)).status).toBe(200);
  });

  it('of the admin API is decoded like any other', async () => {
    const answer = await send('/admin/auth-keys', 'gzip', gzipSync(Buffer.from('{"name":"a"}')));
    expect(answer.status).toBe(201);
  });
});

describe('a form', () => {
  it('is decoded as it arrives', async () => {
    scripted.script((_request, response) =>
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"text":""}'),
    );
    const { type, body } = await form(200_000);
    expect((await send('/v1/audio/transcriptions', 'gzip', gzipSync(body), type)).status).toBe(200);
    expect(scripted.last().headers['content-encoding']).toBeUndefined();
    expect(scripted.last().body.length).toBeGreaterThan(200_000);
  });

  it('that exceeds the limit when decoded is refused with 413', async () => {
    const { type, body } = await form(64 * LIMIT);
    const answer = await send('/v1/audio/transcriptions', 'gzip', gzipSync(body), type);
    expect((await errorOf(answer, 413)).code).toBe('request_too_large');
  });

  it('that is not encoded as stated is refused with 400', async () => {
    const { type, body } = await form(1000);
    expect((await errorOf(await send('/v1/audio/transcriptions', 'gzip', body, type), 400)).code).toBe('invalid_form');
  });
});

describe('a body under /p', () => {
  const echo = () =>
    scripted.script((_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'));

  it('is passed on unchanged', async () => {
    echo();
    const body = gzipSync(Buffer.from('{"a":1}'));
    expect((await send('/p/openai/v1/moderations', 'gzip', body)).status).toBe(200);
    expect(scripted.last().headers['content-encoding']).toBe('gzip');
    expect(scripted.last().body).toEqual(body);
  });

  it('of a key that does not see everything is decoded, checked, and passed on decoded', async () => {
    echo();
    const made = await gateway.fetch('/admin/auth-keys', { json: { name: 'bound', user_path: '/team' } });
    const { value: key } = await json(made);
    const post = (encoding: string, body: Buffer) =>
      send('/p/openai/v1/moderations', encoding, body, 'application/json', key);
    expect((await post('zstd', zstdCompressSync(Buffer.from('{"input":"a"}')))).status).toBe(200);
    expect(scripted.last().headers['content-encoding']).toBeUndefined();
    expect(scripted.last().body.toString()).toBe('{"input":"a"}');
    const named = Buffer.from('{"input":[{"type":"input_file","file_id":"file-1"}]}');
    expect((await post('gzip', gzipSync(named))).status).toBe(404);
    expect((await errorOf(await post('compress', named), 415)).code).toBe('unsupported_content_encoding');
    const bomb = gzipSync(Buffer.alloc(64 * LIMIT, 'x'));
    expect((await errorOf(await post('gzip', bomb), 413)).code).toBe('request_too_large');
  });
});
