/** OpenAI's own client, unchanged, at the endpoints that are passed on to a provider. */
import OpenAI, { APIError, toFile } from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { withGateway } from '../support/with-gateway.ts';

const gateway = withGateway({
  register: (url) => ({
    OPENAI_BASE_URL: url,
    OPENAI_API_KEY: 'sk-upstream',
    DEEPSEEK_BASE_URL: url,
    DEEPSEEK_API_KEY: 'sk-deep',
  }),
});
const model = 'openai/simulated-small';
let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ apiKey: MASTER_KEY, baseURL: `${gateway.url}/v1` });
});
const sound = () => toFile(Buffer.from('RIFF....WAVE'), 'speech.wav', { type: 'audio/wav' });
const picture = (name = 'a.png') => toFile(Buffer.from('\x89PNG'), name, { type: 'image/png' });

describe('the OpenAI client', () => {
  it('completes text, whole and streamed', async () => {
    const whole = await client.completions.create({ model, prompt: 'Once upon a time' });
    expect(whole.choices[0]?.text).toEqual(expect.any(String));
    let text = '';
    for await (const chunk of await client.completions.create({ model, prompt: 'Once', stream: true })) {
      text += chunk.choices[0]?.text ?? '';
    }
    expect(text).not.toBe('');
  });

  it('generates speech', async () => {
    const speech = await client.audio.speech.create({ model, input: 'Hello there', voice: 'alloy' });
    expect((await speech.arrayBuffer()).byteLength).toBeGreaterThan(0);
  });

  it('transcribes and translates, whole and streamed', async () => {
    const transcription = await client.audio.transcriptions.create({ model, file: await sound() });
    expect(transcription.text).toEqual(expect.any(String));
    expect((await client.audio.translations.create({ model, file: await sound() })).text).toEqual(expect.any(String));
    const stream = await client.audio.transcriptions.create({ model, file: await sound(), stream: true });
    const types: string[] = [];
    for await (const event of stream) types.push(event.type);
    expect(types.at(-1)).toBe('transcript.text.done');
  });

  it('generates and edits images', async () => {
    const made = await client.images.generate({ model, prompt: 'a cat' });
    expect(made.data?.length).toBeGreaterThan(0);
    const image = [await picture('a.png'), await picture('b.png')];
    const changed = await client.images.edit({ model, prompt: 'with a hat', image });
    expect(changed.data?.length).toBeGreaterThan(0);
  });

  it('counts the tokens of a response, and compacts one', async () => {
    const { input_tokens } = await client.responses.inputTokens.count({ model, input: 'Hello there' });
    expect(input_tokens).toBeGreaterThan(0);
    const compacted = await client.responses.compact({ model, input: 'Hello there' });
    expect(compacted.object).toBe('response.compaction');
  });

  it('stores files, lists them, fetches and deletes them', async () => {
    const content = '{"custom_id":"1"}\n';
    const file = await client.files.create({ file: await toFile(Buffer.from(content), 'in.jsonl'), purpose: 'batch' });
    expect(file).toMatchObject({ object: 'file', provider: 'openai' });
    expect((await client.files.retrieve(file.id)).id).toBe(file.id);
    expect(await (await client.files.content(file.id)).text()).toBe(content);
    const listed: string[] = [];
    for await (const one of client.files.list({ limit: 1 })) listed.push(one.id);
    expect(listed).toContain(file.id);
    expect(await client.files.delete(file.id)).toMatchObject({ deleted: true });
    await expect(client.files.retrieve(file.id)).rejects.toMatchObject({ status: 404, type: 'not_found_error' });
  });

  it('runs batches', async () => {
    const line = {
      custom_id: '1',
      method: 'POST',
      url: '/v1/chat/completions',
      body: { model: 'simulated-small', messages: [{ role: 'user', content: 'hi' }] },
    };
    const file = await toFile(Buffer.from(`${JSON.stringify(line)}\n`), 'in.jsonl');
    const { id: input_file_id } = await client.files.create({ file, purpose: 'batch' });
    const batch = await client.batches.create({
      input_file_id,
      endpoint: '/v1/chat/completions',
      completion_window: '24h',
    });
    expect(batch).toMatchObject({ object: 'batch', input_file_id, provider: 'openai' });
    const listed: string[] = [];
    for await (const one of client.batches.list()) listed.push(one.id);
    expect(listed).toContain(batch.id);
    await expect
      .poll(async () => (await client.batches.retrieve(batch.id)).status, { timeout: 5000 })
      .toBe('completed');
    const { output_file_id } = await client.batches.retrieve(batch.id);
    expect(await (await client.files.content(output_file_id ?? '')).text()).toContain('"custom_id":"1"');
  });

  it('tries only once where a provider lacks an endpoint', async () => {
    const send = () => client.completions.create({ model: 'deepseek/simulated-small', prompt: 'x' });
    const error = await send().catch((failed: unknown) => failed);
    expect(error).toBeInstanceOf(APIError);
    expect(error).toMatchObject({ status: 501, code: 'unsupported_operation' });
    expect(
      gateway.simulated.requests.filter(
        ({ headers }) => headers['authorization'] === 'Bearer sk-deep' && headers['content-type'] !== undefined,
      ),
    ).toEqual([]);
  });
});
