/**
 * What the gateway reads in the messages of a realtime session: usage, the beginning and the end of responses, models, and
 * audio. OpenAI's Realtime API, in its present and its earlier names, and Gemini's Live API.
 */
import { isUtf8 } from 'node:buffer';
import { isExactNumber } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { parseChunk } from '../model-request/answer-body.ts';
import {
  type EstimatedTokens,
  readUsage,
  type TokenUsage,
  tokensInBytes,
  unknownUsage,
} from '../model-request/usage.ts';

type Json = Readonly<Record<string, unknown>>;

/** Undefined for a message that is no JSON object. Gemini sends JSON in binary messages. */
export function parsedMessage(message: Buffer): Json | undefined {
  return isUtf8(message) ? parseChunk(message.toString()) : undefined;
}

/** Usage that a message of the provider reports. */
export interface ReportedUsage {
  readonly usage: TokenUsage;
  /** Undefined: that of the session. */
  readonly model: string | undefined;
  /** The provider's id of the response. */
  readonly answerId: string | undefined;
}

export interface ReadMessage {
  /** The provider begins a response. */
  readonly begins?: boolean;
  readonly spent?: ReportedUsage;
  /** It reports an error, which may repeat a credential. */
  readonly isError?: boolean;
}

/** OpenAI counts a token for each 50 ms of audio that a model speaks. */
const AUDIO_TOKENS_PER_SECOND = 20;
/** 16 bits at 24 kHz, the usual format, and G.711. */
const PCM_BYTES_PER_SECOND = 48_000;
const G711_BYTES_PER_SECOND = 8_000;

const TEXT_DELTA =
  /^response\.(?:output_text|text|output_audio_transcript|audio_transcript|function_call_arguments)\.delta$/;
const AUDIO_DELTA = /^response\.(?:output_audio|audio)\.delta$/;
const COUNTS = [
  ...(['inputTokens', 'outputTokens', 'totalTokens', 'cachedInputTokens', 'reasoningTokens'] as const),
  ...(['audioInputTokens', 'audioOutputTokens', 'imageInputTokens'] as const),
];
const NOTHING: ReadMessage = {};

/** Of one session. */
export class SessionMeter {
  /** The sum of all usage that was reported. */
  total: TokenUsage = unknownUsage;
  #isResponding = false;
  #text = 0;
  #audioSeconds = 0;
  #bytesPerSecond = PCM_BYTES_PER_SECOND;
  #inputTokens = 0;
  #transcriptionModel: string | undefined;
  /** That a session of Gemini's API names. */
  #model: string | undefined;

  /** Whether a response has begun and not ended. */
  get isResponding(): boolean {
    return this.#isResponding;
  }

  /** Reads a message of the client. */
  readSent(message: Json): void {
    const { setup } = message;
    if (isObject(setup) && typeof setup.model === 'string') this.#model = setup.model.replace(/^models\//, '');
  }

  /** Reads a message of the provider. */
  read(message: Json): ReadMessage {
    const { type, usageMetadata } = message;
    if (isObject(usageMetadata)) return this.#spent(geminiUsage(usageMetadata), this.#model, undefined);
    if (typeof type !== 'string') return NOTHING;
    if (type === 'error') return { isError: true };
    if (type === 'session.created' || type === 'session.updated') this.#readSession(message.session);
    else if (type === 'response.created') return this.#begin();
    else if (type === 'response.done') return this.#end(message.response);
    else if (type === 'conversation.item.input_audio_transcription.completed') {
      const usage = readUsage(message.usage);
      return usage.source === 'unknown' ? NOTHING : this.#spent(usage, this.#transcriptionModel, undefined);
    } else if (typeof message.delta === 'string') {
      if (TEXT_DELTA.test(type)) this.#text += Buffer.byteLength(message.delta);
      else if (AUDIO_DELTA.test(type)) this.#audioSeconds += bytesInBase64(message.delta) / this.#bytesPerSecond;
    }
    return NOTHING;
  }

  /** The tokens of a response that has not ended, as far as they have arrived; undefined when there is none. */
  unfinished(): EstimatedTokens | undefined {
    if (!this.#isResponding) return undefined;
    const outputTokens = tokensInBytes(this.#text) + Math.ceil(this.#audioSeconds * AUDIO_TOKENS_PER_SECOND);
    return { inputTokens: this.#inputTokens, outputTokens };
  }

  #begin(): ReadMessage {
    this.#isResponding = true;
    this.#text = 0;
    this.#audioSeconds = 0;
    return { begins: true };
  }

  #end(response: unknown): ReadMessage {
    this.#isResponding = false;
    if (!isObject(response)) return NOTHING;
    const usage = readUsage(response.usage);
    if (usage.source === 'unknown') return NOTHING;
    // Each response reads the whole conversation.
    this.#inputTokens = usage.inputTokens ?? 0;
    return this.#spent(usage, undefined, typeof response.id === 'string' ? response.id : undefined);
  }

  #spent(usage: TokenUsage, model: string | undefined, answerId: string | undefined): ReadMessage {
    this.total = sumOf(this.total, usage);
    return { spent: { usage, model, answerId } };
  }

  #readSession(session: unknown): void {
    this.#transcriptionModel = transcriptionModelIn(session) ?? this.#transcriptionModel;
    const output = isObject(session) && isObject(session.audio) ? session.audio.output : undefined;
    const format = isObject(output) && isObject(output.format) ? output.format.type : undefined;
    const earlier = isObject(session) ? session.output_audio_format : undefined;
    const isG711 = /pcm[ua]|g711/.test(String(format ?? earlier ?? ''));
    this.#bytesPerSecond = isG711 ? G711_BYTES_PER_SECOND : PCM_BYTES_PER_SECOND;
  }
}

function sumOf(before: TokenUsage, more: TokenUsage): TokenUsage {
  const sums = COUNTS.map((name) => {
    const [one, other] = [before[name], more[name]];
    return [name, one === null && other === null ? null : (one ?? 0) + (other ?? 0)];
  });
  return { ...before, ...Object.fromEntries(sums), source: 'provider' };
}

/** Gemini Live API: `UsageMetadata`. */
function geminiUsage(raw: Record<string, unknown>): TokenUsage {
  const { promptTokenCount, responseTokenCount, thoughtsTokenCount, totalTokenCount } = raw;
  const output = [responseTokenCount, thoughtsTokenCount].filter((count) => typeof count === 'number');
  const usage = readUsage({
    prompt_tokens: promptTokenCount,
    completion_tokens: output.length === 0 ? undefined : output.reduce((sum, count) => sum + count, 0),
    total_tokens: totalTokenCount,
    prompt_tokens_details: {
      cached_tokens: raw.cachedContentTokenCount,
      audio_tokens: tokensOf('AUDIO', raw.promptTokensDetails),
    },
    completion_tokens_details: { audio_tokens: tokensOf('AUDIO', raw.responseTokensDetails) },
  });
  return { ...usage, raw };
}

function tokensOf(modality: string, details: unknown): unknown {
  const found: unknown = Array.isArray(details)
    ? details.find((one) => isObject(one) && one.modality === modality)
    : null;
  return isObject(found) ? found.tokenCount : undefined;
}

function transcriptionModelIn(session: unknown): string | undefined {
  if (!isObject(session)) return undefined;
  const input = isObject(session.audio) ? session.audio.input : undefined;
  const found = (isObject(input) ? input.transcription : undefined) ?? session.input_audio_transcription;
  return isObject(found) && typeof found.model === 'string' ? found.model : undefined;
}

// The models that a client names in the configuration of a session.

/** The session in a message that changes it; undefined for other messages. */
function sessionIn(message: Json): Record<string, unknown> | undefined {
  if (message.type !== 'session.update' && message.type !== 'transcription_session.update') return undefined;
  return isObject(message.session) ? message.session : undefined;
}

/** The model of the transcription that a message of the client requests. */
export function transcriptionRequested(message: Json): string | undefined {
  return transcriptionModelIn(sessionIn(message));
}

/** The message for the provider, which knows the model by its own name; undefined when it is the client's. */
export function withModel(message: Json, model: string): Buffer | undefined {
  const session = sessionIn(message);
  if (session?.model === undefined || session.model === model || model === '') return undefined;
  return Buffer.from(JSON.stringify({ ...message, session: { ...session, model } }));
}

/** The message without references to items of the session itself. */
export function withoutOwnItems(message: Json): Json {
  const { response } = message;
  if (!isObject(response) || !Array.isArray(response.input)) return message;
  const input = response.input.filter((item) => !isObject(item) || item.type !== 'item_reference');
  return { ...message, response: { ...response, input } };
}

// Audio in messages.

const MEDIA = /^(?:audio|video)\//;

/** The message for the record: of audio, the number of bytes stands in its place. */
export function withoutAudio(message: Buffer, parsed: Json | undefined): Buffer {
  if (parsed === undefined) return Buffer.from(JSON.stringify(marker(message.length)));
  let isChanged = false;
  const kept = (value: unknown, isAudio: boolean): unknown => {
    if (Array.isArray(value)) return value.map((one) => kept(one, false));
    if (!isObject(value) || isExactNumber(value)) {
      if (!isAudio || typeof value !== 'string') return value;
      isChanged = true;
      return marker(bytesInBase64(value));
    }
    const { type } = value;
    const isMedia = [value.mimeType, value.mime_type].some((one) => typeof one === 'string' && MEDIA.test(one));
    const ofType = typeof type === 'string' && AUDIO_DELTA.test(type);
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        kept(member, name === 'audio' || (name === 'data' && isMedia) || (name === 'delta' && ofType)),
      ]),
    );
  };
  const rest = kept(parsed, false);
  return isChanged ? Buffer.from(JSON.stringify(rest)) : message;
}

function marker(bytes: number): string {
  return `[${bytes} bytes left out]`;
}

function bytesInBase64(text: string): number {
  return Math.floor((text.length * 3) / 4) - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
}
