/** Limits on the size of a request: as large as vendors accept, by the kind of route. */
import { once } from 'node:events';
import { request } from 'node:http';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY, startTestGateway } from '../support/gateway.ts';
import { startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, json, modelsListed, user, withGateway } from '../support/with-gateway.ts';

const MIB = 1024 * 1024;
const scripted = await startScriptedProvider();
afterAll(() => scripted.close());
const register = (url: string) => ({ LLAMACPP_BASE_URL: url, OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk' });
const gateway = withGateway({ register });

const answersWith = (body: object) =>
  scripted.script((_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
  );

function uploadOf(bytes: number, fields: Record<string, string>): FormData {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append('file', new Blob([new Uint8Array(bytes)]), 'a.bin');
  return form;
}

/** The status of a request that only announces its size. */
async function announced(path: string, bytes: number): Promise<number | undefined> {
  const { port } = new URL(gateway.url);
  const headers = {
    authorization: `Bearer ${MASTER_KEY}`,
    'content-type': path.includes('audio') || path.includes('files') ? 'multipart/form-data; boundary=x' : 'a/b',
    'content-length': bytes,
  };
  const sent = request({ host: '127.0.0.1', port, path, method: 'POST', headers });
  sent.on('error', () => {});
  sent.flushHeaders();
  const [answer] = await once(sent, 'response');
  sent.destroy();
  return answer.statusCode;
}

describe('by default', () => {
  it('a chat of 30 MB is served, and recorded whole', async () => {
    const image = 'x'.repeat(30 * MIB);
    const answer = await gateway.post('/v1/chat/completions', {
      model: 'llamacpp/simulated-small',
      messages: user(`Reply with exactly: fine ${image}`),
    });
    expect(answer.status).toBe(200);
    await answer.arrayBuffer();
    expect(gateway.lastProviderRequest().body).toContain(image.slice(0, 1000));
  }, 30_000);

  it('a recording of 25 MB is served', async () => {
    answersWith({ text: 'hello' });
    const form = uploadOf(25 * MIB, { model: 'openai/scripted' });
    const answer = await gateway.fetch('/v1/audio/transcriptions', { method: 'POST', body: form });
    expect(answer.status).toBe(200);
    expect(scripted.last().body.length).toBeGreaterThan(25 * MIB);
  }, 30_000);

  it('a file of 40 MB is streamed to its provider', async () => {
    answersWith({ id: `file-${Date.now()}`, object: 'file', bytes: 40 * MIB });
    const form = uploadOf(40 * MIB, { purpose: 'batch', provider: 'openai' });
    const answer = await gateway.fetch('/v1/files', { method: 'POST', body: form });
    expect(answer.status).toBe(200);
    expect(scripted.last().body.length).toBeGreaterThan(40 * MIB);
  }, 30_000);

  it.each([
    ['/v1/chat/completions', 50],
    ['/v1/messages', 50],
    ['/v1/responses', 50],
    ['/v1/conversations', 50],
    ['/v1/audio/transcriptions', 26],
    ['/v1/files', 513],
    ['/p/openai/v1/files', 513],
    ['/admin/auth-keys', 10],
  ])('%s accepts %i MiB and no more', async (path, mib) => {
    expect(await announced(path, mib * MIB + 1)).toBe(413);
  });
});

describe('configured limits', () => {
  it('apply to their kind of route; BODY_SIZE_LIMIT to all others', async () => {
    const own = await startTestGateway({
      register,
      env: { BODY_SIZE_LIMIT: '2K', MODEL_BODY_SIZE_LIMIT: '8K', AUDIO_BODY_SIZE_LIMIT: '4K' },
    });
    await modelsListed(own, 2);
    answersWith({ text: 'hello' });
    const chat = (bytes: number) =>
      own.fetch('/v1/chat/completions', {
        json: { model: 'llamacpp/simulated-small', messages: user('x'.repeat(bytes)) },
      });
    expect((await chat(6000)).status).toBe(200);
    const error = await errorOf(await chat(9000), 413);
    expect(error).toMatchObject({ code: 'request_too_large', message: expect.stringContaining('8192 bytes') });
    const form = (bytes: number) => ({ method: 'POST', body: uploadOf(bytes, { model: 'openai/scripted' }) });
    expect((await own.fetch('/v1/audio/transcriptions', form(3000))).status).toBe(200);
    expect((await own.fetch('/v1/audio/transcriptions', form(5000))).status).toBe(413);
    expect((await own.fetch('/v1/files', form(3000))).status).toBe(413);
    const key = await own.fetch('/admin/auth-keys', { json: { name: 'x'.repeat(3000) } });
    expect((await json(key)).error.code).toBe('request_too_large');
    await own.close();
  });
});
