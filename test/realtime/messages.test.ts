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
    expect(meter.unfinished()).toBeUndefined();
  });

  it('estimates a response that has not ended, by its text and the seconds of its audio', () => {
    const meter = new SessionMeter();
    meter.read({ type: 'session.updated', session: { audio: { output: { format: { type: 'audio/pcmu' } } } } });
    meter.read({ type: 'response.created', response: {} });
    meter.read({ type: 'response.output_text.delta', delta: 'eight by' });
    // A second of G.711, and a delta in an earlier name.
    meter.read({ type: 'response.audio.delta', delta: Buffer.alloc(8000).toString('base64') });
    expect(meter.unfinished()).toEqual({ inputTokens: 0, outputTokens: 2 + 20 });
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
      expect(transcriptionRequested({ type: 'session.update', session })).toBe(model);
    }
  });
});
