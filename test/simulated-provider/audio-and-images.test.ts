import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { type Answered, dataOf, eventsOf, withProvider } from './started-provider.ts';

const started = withProvider();
const { json, post, provider } = started;
const absent = withProvider({ audio: 'absent', images: 'absent' });
const client = () => new OpenAI({ baseURL: started.url, apiKey: 'none', maxRetries: 0 });

function sendForm(path: string, fields: Record<string, string>, files: Record<string, string | Buffer> = {}) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  for (const [name, content] of Object.entries(files)) form.append(name, new Blob([content]), 'sound.mp3');
  return fetch(new URL(path, started.url), { method: 'POST', body: form });
}

describe('speech', () => {
  const path = '/v1/audio/speech';
  const ask = { model: 'm', input: 'Good morning.', voice: 'alloy' };
  const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());

  it('is bytes, the same for the same words in the same voice', async () => {
    const response = await post(path, ask);
    expect(response.headers.get('content-type')).toBe('audio/mpeg');
    const bytes = await bytesOf(response);
    expect(bytes.subarray(0, 3).toString()).toBe('ID3');
    expect(await bytesOf(await post(path, ask))).toEqual(bytes);
    expect(await bytesOf(await post(path, { ...ask, voice: 'nova' }))).not.toEqual(bytes);
    const wave = await post(path, { ...ask, response_format: 'wav' });
    expect(wave.headers.get('content-type')).toBe('audio/wav');
  });

  it('is the same bytes as a stream of events', async () => {
    const events = dataOf(eventsOf(await (await post(path, { ...ask, stream_format: 'sse' })).text()));
    expect(events.at(-1)).toMatchObject({ type: 'speech.audio.done', usage: { total_tokens: expect.any(Number) } });
    const bytes = Buffer.concat(events.slice(0, -1).map(({ audio }) => Buffer.from(audio, 'base64')));
    expect(bytes).toEqual(await bytesOf(await post(path, ask)));
  });

  it('comes in pieces, pauses and breaks off as a fault sets', async () => {
    const whole = await bytesOf(await post(path, ask));
    const arrived = provider.nextRequest();
    const response = await post(path, { ...ask, simulate: { chunks: 4, holdAfterChunks: 2 } });
    const request = await arrived;
    await expect.poll(() => request.framesSent).toBe(2);
    provider.control.release();
    expect(await bytesOf(response)).toEqual(whole);
    const cut = await post(path, { ...ask, simulate: { chunks: 4, cutAfterChunks: 2 } });
    await expect(cut.arrayBuffer()).rejects.toThrow();
  });

  it.each(['model', 'input', 'voice'])('is refused without %s', async (param) => {
    const response = await post(path, { ...ask, [param]: undefined });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { param, code: 'missing_required_parameter' } });
  });
});

describe('a transcription', () => {
  const path = '/v1/audio/transcriptions';
  const send = (fields: Record<string, string> = {}, content: string | Buffer = 'Good morning, Ada.') =>
    sendForm(path, { model: 'm', ...fields }, { file: content });

  it('is the contents of a text file, and a sentence for any other', async () => {
    expect(await (await send()).json()).toMatchObject({ text: 'Good morning, Ada.', usage: { type: 'tokens' } });
    const noise = Buffer.from([0, 1, 2, 3, 200]);
    const text: Answered = await (await send({}, noise)).json();
    expect(text.text).toMatch(/^[A-Z][a-z ]+\.$/);
    expect(await (await send({}, noise)).json()).toEqual(text);
  });

  it('comes in the requested format', async () => {
    const text = async (response_format: string) => {
      const response = await send({ response_format });
      return [response.headers.get('content-type'), await response.text()];
    };
    expect(await text('text')).toEqual(['text/plain; charset=utf-8', 'Good morning, Ada.\n']);
    expect((await text('srt'))[1]).toMatch(/00:00:00,000 --> 00:00:0\d,\d{3}\nGood/);
    expect((await text('vtt'))[1]).toMatch(/^WEBVTT\n\n00:00\.000/);
    const words = await send({ response_format: 'verbose_json', 'timestamp_granularities[]': 'word', language: 'en' });
    expect(await words.json()).toMatchObject({
      task: 'transcribe',
      language: 'en',
      duration: expect.any(Number),
      words: expect.arrayContaining([{ word: 'Good', start: 0, end: expect.any(Number) }]),
    });
    expect((await send({ response_format: 'fun' })).status).toBe(400);
  });

  it('can be streamed', async () => {
    const events = dataOf(eventsOf(await (await send({ stream: 'true' })).text()));
    expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done', text: 'Good morning, Ada.' });
    expect(
      events
        .slice(0, -1)
        .map(({ delta }) => delta)
        .join(''),
    ).toBe('Good morning, Ada.');
  });

  it('is refused without a file or a model', async () => {
    expect((await sendForm(path, { model: 'm' })).status).toBe(400);
    expect((await sendForm(path, {}, { file: 'x' })).status).toBe(400);
    expect((await post(path, { model: 'm' })).status).toBe(400);
  });

  it('has a translation beside it', async () => {
    const response = await sendForm('/v1/audio/translations', { model: 'm' }, { file: 'Good morning.' });
    expect(await response.json()).toEqual({ text: 'Good morning.' });
  });

  it("works with OpenAI's own client, also for speech", async () => {
    const openai = client();
    const spoken = await openai.audio.speech.create({ model: 'm', input: 'Hello', voice: 'alloy' });
    const file = new File([new Uint8Array(await spoken.arrayBuffer())], 'hello.mp3');
    const { text } = await openai.audio.transcriptions.create({ model: 'm', file });
    expect(text).toEqual(expect.any(String));
  });
});

describe('images', () => {
  it('are PNGs in base64, different for each, and the same for the same prompt', async () => {
    const ask = { model: 'm', prompt: 'A cat', n: 2 };
    const { data, usage } = await json('/v1/images/generations', ask);
    const pictures = data.map(({ b64_json }: Answered) => Buffer.from(b64_json, 'base64'));
    expect(pictures.map((each: Buffer) => each.subarray(1, 4).toString())).toEqual(['PNG', 'PNG']);
    expect(pictures[0]).not.toEqual(pictures[1]);
    expect(usage).toMatchObject({ output_tokens: expect.any(Number), total_tokens: expect.any(Number) });
    expect((await json('/v1/images/generations', ask)).data).toEqual(data);
    const linked = await json('/v1/images/generations', { ...ask, response_format: 'url' });
    expect(linked.data[0].url).toMatch(/^https:/);
    expect((await post('/v1/images/generations', { model: 'm' })).status).toBe(400);
  });

  it('are edited in a form', async () => {
    const edit = async (picture: string) =>
      sendForm('/v1/images/edits', { model: 'm', prompt: 'A hat' }, { 'image[]': picture });
    const first: Answered = await (await edit('one')).json();
    const second: Answered = await (await edit('two')).json();
    expect(first.data[0].b64_json).not.toBe(second.data[0].b64_json);
    expect(first.usage.input_tokens_details.image_tokens).toBeGreaterThan(0);
    expect((await sendForm('/v1/images/edits', { prompt: 'A hat' })).status).toBe(400);
  });

  it("work with OpenAI's own client", async () => {
    const openai = client();
    const made = await openai.images.generate({ model: 'm', prompt: 'A cat' });
    expect(made.data?.[0]?.b64_json).toEqual(expect.any(String));
    const edited = await openai.images.edit({ model: 'm', prompt: 'A hat', image: new File(['x'], 'cat.png') });
    expect(edited.data?.[0]?.b64_json).toEqual(expect.any(String));
  });
});

it('both can be switched off', async () => {
  expect((await absent.post('/v1/audio/speech', {})).status).toBe(404);
  expect((await absent.post('/v1/images/generations', {})).status).toBe(404);
});
