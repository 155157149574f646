/** What the gateway reads in the messages of sessions, and what it leaves out of the record. */
import { describe, expect, it } from 'vitest';
import {
  parsedMessage,
  SessionMeter,
  transcriptionRequested,
  withModel,
  withoutAudio,
} from '../../src/commands/realtime/messages.ts';

const bytesOf = (message: unknown) => Buffer.from(JSON.stringify(message));
const audio = Buffer.alloc(3000, 7).toString('base64');

describe('SessionMeter', () => {
  it('reports the usage of responses and transcriptions, and sums it', () => {
    const meter = new SessionMeter();
    const transcription = { model: 'gpt-4o-transcribe' };
    expect(meter.read({ type: 'session.updated', session: { audio: { input: { transcription } } } })).toEqual({});
    expect(meter.read({ type: 'response.created', response: { id: 'r1' } })).toEqual({ begins: true });
    expect(meter.isResponding).toBe(true);
    const usage = { total_tokens: 9, input_tokens: 5, output_tokens: 4, output_token_details: { audio_tokens: 3 } };
    const { spent } = meter.read({ type: 'response.done', response: { id: 'r1', usage } });
    expect(spent).toMatchObject({ answerId: 'r1', model: undefined, usage: { outputTokens: 4, audioOutputTokens: 3 } });
    const type = 'conversation.item.input_audio_transcription.completed';
    const second = meter.read({ type, usage: { type: 'tokens', input_tokens: 2, output_tokens: 1, total_tokens: 3 } });
    expect(second.spent).toMatchObject({ model: 'gpt-4o-transcribe', usage: { inputTokens: 2 } });
    expect(meter.total).toMatchObject({ inputTokens: 7, outputTokens: 5, totalTokens: 12 });
    expect(meter.unfinished()).toEqual([]);
  });

  it('estimates a response that has not ended, by its text and the seconds of its audio', () => {
    const meter = new SessionMeter();
    meter.read({ type: 'session.updated', session: { audio: { output: { format: { type: 'audio/pcmu' } } } } });
    meter.read({ type: 'response.created', response: {} });
    meter.read({ type: 'response.output_text.delta', delta: 'eight by' });
    // A second of G.711, and a delta in an earlier name.
    meter.read({ type: 'response.audio.delta', delta: Buffer.alloc(8000).toString('base64') });
    expect(meter.unfinished()).toEqual([{ answerId: undefined, tokens: { inputTokens: 0, outputTokens: 2 + 20 } }]);
  });

  it('estimates each of several responses that have not ended, also from a record without audio', () => {
    for (const isKept of [true, false]) {
      const meter = new SessionMeter();
      const read = (message: Readonly<Record<string, unknown>>) => {
        const bytes = bytesOf(message);
        meter.read(parsedMessage(isKept ? bytes : withoutAudio(bytes, message)) ?? {});
      };
      // A second of input: ten tokens.
      const appended = { type: 'input_audio_buffer.append', audio: Buffer.alloc(48_000).toString('base64') };
      meter.readSent(isKept ? appended : (parsedMessage(withoutAudio(bytesOf(appended), appended)) ?? {}));
      for (const id of ['r1', 'r2', 'r3']) read({ type: 'response.created', response: { id } });
      const usage = { input_tokens: 30, output_tokens: 1 };
      read({ type: 'response.output_audio.delta', response_id: 'r1', delta: Buffer.alloc(96_000).toString('base64') });
      read({ type: 'response.output_text.delta', response_id: 'r2', delta: 'four' });
      read({ type: 'response.done', response: { id: 'r3', usage } });
      expect(meter.unfinished()).toEqual([
        { answerId: 'r1', tokens: { inputTokens: 30, outputTokens: 40 } },
        { answerId: 'r2', tokens: { inputTokens: 30, outputTokens: 1 } },
      ]);
    }
  });

  it.each([
    [undefined, { inputTokens: 1, outputTokens: 2 }],
    [null, { inputTokens: 1, outputTokens: 2 }],
    [
      { input_tokens: -5, output_tokens: 4 },
      { inputTokens: 1, outputTokens: 4 },
    ],
    [
      { input_tokens: 7, output_tokens: '4' },
      { inputTokens: 7, outputTokens: 2 },
    ],
    [
      { input_tokens: 7, output_tokens: 2 ** 60 },
      { inputTokens: 7, outputTokens: 2 },
    ],
    [
      { type: 'duration', seconds: 3 },
      { inputTokens: 1, outputTokens: 2 },
    ],
  ])('estimates what a response reports badly: %j', (usage, estimate) => {
    const meter = new SessionMeter();
    meter.readSent({ type: 'conversation.item.create', item: { content: [{ type: 'input_text', text: 'four' }] } });
    meter.read({ type: 'response.created', response: { id: 'r1' } });
    meter.read({ type: 'response.output_text.delta', response_id: 'r1', delta: 'eight by' });
    expect(meter.read({ type: 'response.done', response: { id: 'r1', usage } }).spent).toMatchObject({ estimate });
  });

  it('estimates a transcription and a turn of Gemini without counts', () => {
    const meter = new SessionMeter();
    meter.readSent({ type: 'input_audio_buffer.append', audio: Buffer.alloc(48_000).toString('base64') });
    const type = 'conversation.item.input_audio_transcription.completed';
    const usage = { type: 'duration', seconds: '5' };
    const { spent } = meter.read({ type, item_id: 'i1', content_index: 0, transcript: 'four', usage });
    expect(spent?.estimate).toEqual({ inputTokens: 10, outputTokens: 1 });
    const live = new SessionMeter();
    live.read({ serverContent: { modelTurn: { parts: [{ text: 'four' }] } } });
    expect(live.unfinished()).toHaveLength(1);
    expect(live.read({ usageMetadata: { promptTokenCount: -1 } }).spent?.estimate).toEqual({
      ...{ inputTokens: 0, outputTokens: 1 },
    });
    expect(live.unfinished()).toEqual([]);
  });

  it('charges a response and a transcription once', () => {
    const meter = new SessionMeter();
    const done = { type: 'response.done', response: { id: 'r1', usage: { input_tokens: 1, output_tokens: 1 } } };
    const type = 'conversation.item.input_audio_transcription.completed';
    const heard = { type, item_id: 'i1', content_index: 0, usage: { type: 'duration', seconds: 3 } };
    for (const message of [done, heard]) {
      expect(meter.read(message).spent).toBeDefined();
      expect(meter.read(message).spent).toBeUndefined();
    }
    expect(meter.read({ type: 'response.created', response: { id: 'r1' } }).begins).toBeUndefined();
    expect(meter.read({ type: 'response.output_text.delta', response_id: 'r1', delta: 'late' })).toEqual({});
    expect(meter.unfinished()).toEqual([]);
  });
});

describe('withoutAudio', () => {
  it.each([
    [{ type: 'input_audio_buffer.append', audio }],
    [{ type: 'response.output_audio.delta', delta: audio }],
    [{ type: 'response.audio.delta', delta: audio }],
    [{ type: 'conversation.item.create', item: { content: [{ type: 'input_audio', audio, transcript: 'hi' }] } }],
    [{ realtimeInput: { audio: { mimeType: 'audio/pcm;rate=16000', data: audio } } }],
    [{ serverContent: { modelTurn: { parts: [{ inlineData: { mimeType: 'audio/pcm', data: audio } }] } } }],
  ])('puts the size in its place: %#', (message) => {
    const text = withoutAudio(bytesOf(message), message).toString();
    expect(text).toBe(JSON.stringify(message).replace(audio, '[3000 bytes left out]'));
  });

  it('leaves other messages as they are, byte for byte, and nothing of bytes that are no message', () => {
    const bytes = Buffer.from('{"type": "response.output_text.delta",  "delta": "audio", "n": 12345678901234567890}');
    expect(withoutAudio(bytes, parsedMessage(bytes))).toBe(bytes);
    expect(withoutAudio(Buffer.alloc(10, 255), undefined).toString()).toBe('"[10 bytes left out]"');
  });
});

describe('the models in a change of a session', () => {
  it('are those of the provider, and that of the transcription is found in both forms', () => {
    const update = { type: 'session.update', session: { model: 'openai/gpt-realtime', voice: 'marin' } };
    expect(JSON.parse(String(withModel(update, 'gpt-realtime')))).toEqual({
      ...{ type: 'session.update', session: { model: 'gpt-realtime', voice: 'marin' } },
    });
    expect(withModel({ type: 'session.update', session: {} }, 'gpt-realtime')).toBeUndefined();
    expect(withModel({ type: 'response.create', session: update.session }, 'gpt-realtime')).toBeUndefined();
    const model = 'whisper-1';
    for (const session of [
      { input_audio_transcription: { model } },
      { audio: { input: { transcription: { model } } } },
    ]) {
      expect(transcriptionRequested({ type: 'session.update', session })).toEqual([model]);
    }
    const both = { audio: { input: { transcription: { model: 'a' } } }, input_audio_transcription: { model: 'b' } };
    expect(transcriptionRequested({ type: 'session.update', session: both })).toEqual(['a', 'b']);
  });
});
