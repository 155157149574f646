import { createHash } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { type ScriptedProvider, startScriptedProvider } from '../support/scripted-provider.ts';
import { errorOf, eventsOfExchange, exchangeOf, json, withGateway } from '../support/with-gateway.ts';

let scripted: ScriptedProvider;
const gateway = withGateway(async () => {
  scripted = await startScriptedProvider();
  return { register: () => ({ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk-upstream' }) };
});
const keeping = withGateway(async () => ({
  register: () => ({ OPENAI_BASE_URL: scripted.url, OPENAI_API_KEY: 'sk-upstream' }),
  env: { LOGGING_LOG_IMAGE_BODIES: 'true' },
}));
afterAll(() => scripted.close());

const model = 'openai/scripted';
const sha256 = (bytes: Uint8Array | string) => createHash('sha256').update(bytes).digest('hex');
const picture = Buffer.alloc(40_000, 'picture').toString('base64');
const made = {
  created: 1,
  data: [{ b64_json: picture }],
  usage: { input_tokens: 3, output_tokens: 9, total_tokens: 12 },
};
const text = JSON.stringify(made);

function draws(): void {
  scripted.script((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length }).end(text);
  });
}

const edit = (): FormData => {
  const form = new FormData();
  form.append('image[]', new Blob([Buffer.from('one')], { type: 'image/png' }), 'one.png');
  form.append('image[]', new Blob([Buffer.from('two')], { type: 'image/png' }), 'two.png');
  form.append('model', model);
  form.append('prompt', 'a hat');
  return form;
};

describe('an image', () => {
  it.each([
    ['made', '/v1/images/generations', () => JSON.stringify({ model, prompt: 'a cat' })],
    ['changed, by a form', '/v1/images/edits', edit],
    [
      'changed, by reference',
      '/v1/images/edits',
      () => JSON.stringify({ model, prompt: 'a hat', images: [{ file_id: 'file-1' }] }),
    ],
  ])('that is %s reaches the client whole, and the record by digest and size', async (_how, path, body) => {
    draws();
    const answer = await gateway.fetch(path, { method: 'POST', body: body() });
    expect(await answer.text()).toBe(text);
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.find(({ type }) => type === 'answer.received')?.data).toMatchObject({
      bytes: text.length,
      sha256: sha256(text),
    });
    expect(JSON.stringify(events)).not.toContain(picture.slice(0, 100));
    expect(events.at(-1)?.data).toMatchObject({ endpoint: path, inputTokens: 3, outputTokens: 9 });

    const kept = await keeping.fetch(path, { method: 'POST', body: body() });
    const all = await eventsOfExchange(keeping, exchangeOf(kept));
    expect(all.find(({ type }) => type === 'chunk.received')?.body).toBe(text);
  });

  it('may come of several, each recorded in its turn', async () => {
    draws();
    const answer = await gateway.fetch('/v1/images/edits', { method: 'POST', body: edit() });
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    const files = events.filter(({ type, data }) => type === 'request.part_received' && data.name === 'image[]');
    expect(files.map(({ data }) => [data.filename, data.sha256])).toEqual([
      ['one.png', sha256('one')],
      ['two.png', sha256('two')],
    ]);
  });

  it('streams as it is drawn', async () => {
    const frames = [
      'event: image_generation.partial_image\ndata: {"type":"image_generation.partial_image","b64_json":"AA"}\n\n',
      'event: image_generation.completed\ndata: {"type":"image_generation.completed","b64_json":"BB","usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}\n\n',
    ];
    scripted.script((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end(frames.join(''));
    });
    const answer = await gateway.post('/v1/images/generations', { model, prompt: 'a cat', stream: true });
    expect(await answer.text()).toBe(frames.join(''));
    expect(scripted.last().headers.accept).toBe('text/event-stream');
    const events = await eventsOfExchange(gateway, exchangeOf(answer));
    expect(events.at(-1)?.data).toMatchObject({ inputTokens: 1, outputTokens: 2 });
  });

  it('is not made by a form, where only JSON will do', async () => {
    const answer = await gateway.fetch('/v1/images/generations', { method: 'POST', body: edit() });
    expect((await errorOf(answer, 400)).type).toBe('invalid_request_error');
    expect((await json(await gateway.fetch('/v1/models'))).data).toHaveLength(1);
  });
});
