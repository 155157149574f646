/** `/v1/audio`: speech and transcriptions. */
import type { Rendering } from './chat.ts';
import { missing } from './files.ts';
import type { Form } from './form.ts';
import { type JsonObject, listIn, textIn } from './json.ts';
import { Refused } from './refused.ts';
import { dataFrame, type Frame, type Reply } from './reply.ts';
import { countTokens, tokensOf } from './tokens.ts';
import { hashOf, noise, sentence } from './words.ts';

const SPOKEN: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
};
const BYTES_PER_TOKEN = 256;
const SECONDS_PER_TOKEN = 0.4;

/** The same text in the same voice gives the same bytes: noise after the header of its format. */
export function speech(body: JsonObject): Reply {
  for (const name of ['model', 'input', 'voice']) if (body[name] === undefined) throw missing(name);
  const input = textIn(body.input);
  if (input === undefined || input === '') throw new Refused(400, 'input must be a text', { param: 'input' });
  const format = textIn(body.response_format) ?? 'mp3';
  const contentType = SPOKEN[format];
  if (contentType === undefined)
    throw new Refused(400, `Invalid response_format '${format}'.`, { param: 'response_format' });
  const tokens = countTokens(input);
  const sound = noise(hashOf(`${JSON.stringify(body.voice)} ${input}`), tokens * BYTES_PER_TOKEN);
  const bytes = Buffer.concat([Buffer.from(format === 'mp3' ? 'ID3' : format), sound]);
  if (body.stream_format !== 'sse') return { status: 200, bytes, contentType };
  return { status: 200, frames: soundFrames(bytes, tokens) };
}

function* soundFrames(bytes: Buffer, tokens: number): Generator<Frame> {
  for (let start = 0; start < bytes.length; start += BYTES_PER_TOKEN) {
    const audio = bytes.subarray(start, start + BYTES_PER_TOKEN).toString('base64');
    yield dataFrame('delta', { type: 'speech.audio.delta', audio });
  }
  const usage = { input_tokens: tokens, output_tokens: tokens, total_tokens: 2 * tokens };
  yield dataFrame('finish', { type: 'speech.audio.done', usage });
}

/** Transcribes a file of plain text as its words, and any other as a sentence derived from its bytes. */
export function transcribed({ fields, files }: Form, task: 'transcribe' | 'translate', { words }: Rendering): Reply {
  const file = files.find(({ field }) => field === 'file');
  if (file === undefined) throw missing('file');
  if (fields.model === undefined) throw missing('model');
  const written = file.bytes.toString();
  const isText = file.bytes.length > 0 && /^[\p{L}\p{N}\p{P}\p{Zs}\n]*$/u.test(written);
  const text = isText ? written.trim() : sentence(hashOf(file.bytes.toString('latin1')), words);
  const tokens = tokensOf(text);
  if (fields.stream === 'true' && task === 'transcribe') return { status: 200, frames: textFrames(tokens) };
  const seconds = Math.round(tokens.length * SECONDS_PER_TOKEN * 10) / 10;
  const format = textIn(fields.response_format) ?? 'json';
  switch (format) {
    case 'json':
      return { status: 200, json: task === 'transcribe' ? { text, usage: usageOf(tokens) } : { text } };
    case 'text':
      return plain(`${text}\n`);
    case 'srt':
      return plain(`1\n00:00:00,000 --> 00:00:${clock(seconds)}\n${text}\n`);
    case 'vtt':
      return plain(`WEBVTT\n\n00:00.000 --> 00:${clock(seconds).replace(',', '.')}\n${text}\n`);
    case 'verbose_json':
      return { status: 200, json: verbose({ fields, task, text, tokens, seconds }) };
    default:
      throw new Refused(400, `Invalid response_format '${format}'.`, { param: 'response_format' });
  }
}

function* textFrames(tokens: readonly string[]): Generator<Frame> {
  for (const delta of tokens) yield dataFrame('delta', { type: 'transcript.text.delta', delta });
  yield dataFrame('finish', { type: 'transcript.text.done', text: tokens.join(''), usage: usageOf(tokens) });
}

interface Heard {
  readonly fields: JsonObject;
  readonly task: string;
  readonly text: string;
  readonly tokens: readonly string[];
  readonly seconds: number;
}

function verbose({ fields, task, text, tokens, seconds }: Heard): JsonObject {
  const granularities = listIn(fields.timestamp_granularities);
  const timed = tokens.map((word, i) => ({
    word: word.trim(),
    start: i * SECONDS_PER_TOKEN,
    end: (i + 1) * SECONDS_PER_TOKEN,
  }));
  const segment = {
    id: 0,
    seek: 0,
    start: 0,
    end: seconds,
    text,
    tokens: tokens.map((token) => hashOf(token) % 50_000),
    temperature: 0,
    avg_logprob: -0.2,
    compression_ratio: 1,
    no_speech_prob: 0.01,
  };
  return {
    task,
    language: task === 'translate' ? 'english' : (fields.language ?? 'english'),
    duration: seconds,
    text,
    ...(granularities.includes('word') ? { words: timed } : {}),
    ...(granularities.length === 0 || granularities.includes('segment') ? { segments: [segment] } : {}),
    usage: { type: 'duration', seconds: Math.ceil(seconds) },
  };
}

function usageOf(tokens: readonly string[]) {
  const heardTokens = tokens.length * 10;
  return {
    type: 'tokens',
    input_tokens: heardTokens,
    input_token_details: { text_tokens: 0, audio_tokens: heardTokens },
    output_tokens: tokens.length,
    total_tokens: heardTokens + tokens.length,
  };
}

function plain(text: string): Reply {
  return { status: 200, bytes: Buffer.from(text), contentType: 'text/plain; charset=utf-8' };
}

/** Seconds and milliseconds. */
function clock(seconds: number): string {
  return seconds.toFixed(3).padStart(6, '0').replace('.', ',');
}
