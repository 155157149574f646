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
  isReported,
  readUsage,
  type TokenUsage,
  tokensInBytes,
  tokensInText,
  unknownUsage,
} from '../model-request/usage.ts';

type Json = Readonly<Record<string, unknown>>;

/** Undefined for a message that is no JSON object. Gemini sends JSON in binary messages. */
export function parsedMessage(message: Buffer): Json | undefined {
  const parsed = isUtf8(message) ? parseChunk(message.toString()) : undefined;
  return isExactNumber(parsed) ? undefined : parsed;
}

const BEGINS_AS_JSON = /^\ufeff?\s*[{[]/;

/** Whether a parser more tolerant than the gateway's may read a message that is no JSON object. */
export function mayBeJson(message: Buffer): boolean {
  return isUtf8(message) && BEGINS_AS_JSON.test(message.toString());
}

/** Usage that a message of the provider reports. */
export interface ReportedUsage {
  readonly usage: TokenUsage;
  /** Undefined: that of the session. */
  readonly model: string | undefined;
  /** The provider's id of the response. */
  readonly answerId: string | undefined;
  /** What is charged where the report is missing or cannot be read. */
  readonly estimate?: EstimatedTokens | undefined;
}

/** A response that has not ended, with its tokens as far as they have arrived. */
export interface UnfinishedResponse {
  readonly answerId: string | undefined;
  readonly tokens: EstimatedTokens;
}

export interface ReadMessage {
  /** The provider begins a response. */
  readonly begins?: boolean;
  readonly spent?: ReportedUsage;
  /** It reports an error, which may repeat a credential. */
  readonly isError?: boolean;
}

/** OpenAI counts a token for each 50 ms of audio that a model speaks, and for each 100 ms that it hears. */
const AUDIO_TOKENS_PER_SECOND = 20;
const INPUT_AUDIO_TOKENS_PER_SECOND = 10;
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
/** Of the ids of what was charged, the newest; and the responses that are open at the same time, beyond which they are one. */
const MAX_REMEMBERED = 4096;
const MAX_OPEN = 256;
/** Of a response without an id. */
const UNNAMED = '';

/** What has arrived of a response. */
interface Output {
  text: number;
  audioSeconds: number;
}

/** Of one session. Replayed over the record of a session, it has the same state. */
export class SessionMeter {
  /** The sum of all usage that was reported. */
  total: TokenUsage = unknownUsage;
  /** The model of the transcription, where the session has one. */
  transcriptionModel: string | undefined;
  readonly #open = new Map<string, Output>();
  readonly #charged = new Set<string>();
  /** Of Gemini's API, where responses have no ids. */
  #turn: Output | undefined;
  #outputBytesPerSecond = PCM_BYTES_PER_SECOND;
  #inputBytesPerSecond = PCM_BYTES_PER_SECOND;
  /** The input of the response that ended last, which the next one reads too. */
  #inputTokens = 0;
  /** Since then. */
  #sentText = 0;
  #sentSeconds = 0;
  /** Since the last transcription. */
  #unheardSeconds = 0;
  /** That a session of Gemini's API names. */
  #model: string | undefined;

  /** Whether a response has begun and not ended. */
  get isResponding(): boolean {
    return this.#open.size > 0;
  }

  /** Reads a message of the client. */
  readSent(message: Json): void {
    const { setup } = message;
    if (isObject(setup) && typeof setup.model === 'string') this.#model = setup.model.replace(/^models\//, '');
    this.#readTranscription(sessionIn(message));
    const { text, audio } = contentOf(message);
    const seconds = audio / this.#inputBytesPerSecond;
    this.#sentText += text;
    this.#sentSeconds += seconds;
    this.#unheardSeconds += seconds;
  }

  /** Reads a message of the provider. */
  read(message: Json): ReadMessage {
    const { type, usageMetadata, serverContent } = message;
    if (isObject(serverContent)) this.#readTurn(serverContent.modelTurn);
    if (isObject(usageMetadata)) return this.#endTurn(usageMetadata);
    if (typeof type !== 'string') return NOTHING;
    if (type === 'error') return { isError: true };
    if (type === 'session.created' || type === 'session.updated') this.#readSession(message.session);
    else if (type === 'response.created') return this.#begin(idOf(message.response) ?? UNNAMED);
    else if (type === 'response.done') return this.#end(message.response);
    else if (type === 'conversation.item.input_audio_transcription.completed') return this.#transcribed(message);
    else if (typeof message.delta === 'string') return this.#readDelta(type, message.delta, message.response_id);
    return NOTHING;
  }

  /** The responses that have not ended. */
  unfinished(): UnfinishedResponse[] {
    const open = [...this.#open].map(([id, output]) => ({ answerId: id || undefined, tokens: this.#tokensOf(output) }));
    return this.#turn === undefined ? open : [...open, { answerId: undefined, tokens: this.#tokensOf(this.#turn) }];
  }

  #tokensOf(output: Output | undefined): EstimatedTokens {
    const { text, audioSeconds } = output ?? { text: 0, audioSeconds: 0 };
    const sent = tokensInBytes(this.#sentText) + Math.ceil(this.#sentSeconds * INPUT_AUDIO_TOKENS_PER_SECOND);
    const outputTokens = tokensInBytes(text) + Math.ceil(audioSeconds * AUDIO_TOKENS_PER_SECOND);
    return { inputTokens: this.#inputTokens + sent, outputTokens };
  }

  #begin(given: string): ReadMessage {
    if (this.#open.has(given) || this.#charged.has(given)) return NOTHING;
    const id = this.#open.size < MAX_OPEN ? given : UNNAMED;
    if (!this.#open.has(id)) this.#open.set(id, { text: 0, audioSeconds: 0 });
    return { begins: true };
  }

  #readDelta(type: string, delta: string, responseId: unknown): ReadMessage {
    const isText = TEXT_DELTA.test(type);
    if (!isText && !AUDIO_DELTA.test(type)) return NOTHING;
    const id = typeof responseId === 'string' ? responseId : this.#newest();
    const begun = this.#begin(id);
    const output = this.#open.get(id) ?? (this.#charged.has(id) ? undefined : this.#open.get(UNNAMED));
    if (output === undefined) return NOTHING;
    if (isText) output.text += Buffer.byteLength(delta);
    else output.audioSeconds += bytesInBase64(delta) / this.#outputBytesPerSecond;
    return begun;
  }

  /** The id of the response that began last. */
  #newest(): string {
    return [...this.#open.keys()].at(-1) ?? UNNAMED;
  }

  #end(response: unknown): ReadMessage {
    const id = idOf(response) ?? this.#newest();
    const output = this.#open.get(id);
    this.#open.delete(id);
    if (!this.#isFirst(id)) return NOTHING;
    const usage = readUsage(isObject(response) ? response.usage : undefined);
    // A response that failed before the model began costs nothing, as over HTTP.
    const hasFailed = isObject(response) && response.status === 'failed';
    if (hasFailed && usage.source === 'unknown' && !hasContent(output)) return NOTHING;
    return this.#spent(usage, undefined, id || undefined, this.#tokensOf(output));
  }

  #readTurn(turn: unknown): void {
    const parts = isObject(turn) && Array.isArray(turn.parts) ? turn.parts : [];
    if (parts.length === 0) return;
    this.#turn ??= { text: 0, audioSeconds: 0 };
    const { text, audio } = contentOf({ parts });
    this.#turn.text += text;
    this.#turn.audioSeconds += audio / PCM_BYTES_PER_SECOND;
  }

  #endTurn(usageMetadata: Json): ReadMessage {
    const tokens = this.#tokensOf(this.#turn);
    this.#turn = undefined;
    return this.#spent(geminiUsage(usageMetadata), this.#model, undefined, tokens);
  }

  #transcribed({ usage: raw, item_id: item, content_index: index, transcript }: Json): ReadMessage {
    if (typeof item === 'string' && !this.#isFirst(`${item} ${index}`)) return NOTHING;
    const usage = readUsage(raw);
    const tokens = {
      inputTokens: Math.ceil(this.#unheardSeconds * INPUT_AUDIO_TOKENS_PER_SECOND),
      outputTokens: typeof transcript === 'string' ? tokensInText(transcript) : 0,
    };
    this.#unheardSeconds = 0;
    const estimate = isReported(usage) ? undefined : replaced(usage, tokens);
    this.total = sumOf(this.total, usage);
    return { spent: { usage, model: this.transcriptionModel, answerId: undefined, estimate } };
  }

  /** Providers may repeat a message: what was charged is not charged again. */
  #isFirst(id: string): boolean {
    if (id === UNNAMED) return true;
    if (this.#charged.has(id)) return false;
    for (const oldest of this.#charged) {
      if (this.#charged.size < MAX_REMEMBERED) break;
      this.#charged.delete(oldest);
    }
    this.#charged.add(id);
    return true;
  }

  #spent(
    usage: TokenUsage,
    model: string | undefined,
    answerId: string | undefined,
    tokens: EstimatedTokens,
  ): ReadMessage {
    const isWhole = usage.inputTokens !== null && usage.outputTokens !== null;
    const estimate = isWhole ? undefined : replaced(usage, tokens);
    // Each response reads the whole conversation.
    this.#inputTokens = usage.inputTokens ?? tokens.inputTokens;
    this.#sentText = 0;
    this.#sentSeconds = 0;
    this.total = sumOf(this.total, usage);
    return { spent: { usage, model, answerId, estimate } };
  }

  #readSession(session: unknown): void {
    if (!isObject(session)) return;
    this.#readTranscription(session);
    const { input, output } = isObject(session.audio) ? session.audio : {};
    this.#inputBytesPerSecond = bytesPerSecond(input, session.input_audio_format);
    this.#outputBytesPerSecond = bytesPerSecond(output, session.output_audio_format);
  }

  /** A session that says nothing about it keeps its transcription; null ends it. */
  #readTranscription(session: Json | undefined): void {
    const stated = session === undefined ? [] : transcriptionsIn(session);
    if (stated.some((one) => one !== undefined)) this.transcriptionModel = transcriptionModelsIn(session)[0];
  }
}

function idOf(response: unknown): string | undefined {
  return isObject(response) && typeof response.id === 'string' ? response.id : undefined;
}

function hasContent(output: Output | undefined): boolean {
  return output !== undefined && output.text + output.audioSeconds > 0;
}

/** The sides that were reported, and the estimate of the others. */
function replaced({ inputTokens, outputTokens }: TokenUsage, estimate: EstimatedTokens): EstimatedTokens {
  return { inputTokens: inputTokens ?? estimate.inputTokens, outputTokens: outputTokens ?? estimate.outputTokens };
}

function bytesPerSecond(side: unknown, earlier: unknown): number {
  const format = isObject(side) && isObject(side.format) ? side.format.type : undefined;
  return /pcm[ua]|g711/.test(String(format ?? earlier ?? '')) ? G711_BYTES_PER_SECOND : PCM_BYTES_PER_SECOND;
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

/** In both forms, of which a provider may read either. */
function transcriptionsIn(session: Json): unknown[] {
  const input = isObject(session.audio) ? session.audio.input : undefined;
  return [isObject(input) ? input.transcription : undefined, session.input_audio_transcription];
}

function transcriptionModelsIn(session: unknown): string[] {
  if (!isObject(session)) return [];
  return transcriptionsIn(session).flatMap((one) =>
    isObject(one) && typeof one.model === 'string' ? [one.model] : [],
  );
}

// The models that a client names in the configuration of a session.

/** The session in a message that changes it; undefined for other messages. */
function sessionIn(message: Json): Record<string, unknown> | undefined {
  if (message.type !== 'session.update' && message.type !== 'transcription_session.update') return undefined;
  return isObject(message.session) ? message.session : undefined;
}

/** The models of transcriptions that a message of the client requests. */
export function transcriptionRequested(message: Json): readonly string[] {
  return transcriptionModelsIn(sessionIn(message));
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
  const rest = mapTexts(parsed, (text, _name, isAudio) => {
    if (!isAudio) return text;
    isChanged = true;
    return marker(bytesInBase64(text));
  });
  return isChanged ? Buffer.from(JSON.stringify(rest)) : message;
}

/** Members with text that a model reads or has generated. */
const TEXTS: ReadonlySet<string> = new Set(['text', 'transcript', 'instructions', 'arguments', 'output']);

/** Bytes of text and of audio. */
function contentOf(message: Json): { readonly text: number; readonly audio: number } {
  const content = { text: 0, audio: 0 };
  mapTexts(message, (text, name, isAudio) => {
    if (isAudio) content.audio += bytesInBase64(text);
    else if (TEXTS.has(name)) content.text += Buffer.byteLength(text);
    return text;
  });
  return content;
}

function mapTexts(message: Json, change: (text: string, name: string, isAudio: boolean) => string): unknown {
  const changed = (value: unknown, name: string, isAudio: boolean): unknown => {
    if (Array.isArray(value)) return value.map((one) => changed(one, '', false));
    if (typeof value === 'string') return change(value, name, isAudio);
    if (!isObject(value) || isExactNumber(value)) return value;
    const { type } = value;
    const isMedia = [value.mimeType, value.mime_type].some((one) => typeof one === 'string' && MEDIA.test(one));
    const ofType = typeof type === 'string' && AUDIO_DELTA.test(type);
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [
        key,
        changed(member, key, key === 'audio' || (key === 'data' && isMedia) || (key === 'delta' && ofType)),
      ]),
    );
  };
  return changed(message, '', false);
}

function marker(bytes: number): string {
  return `[${bytes} bytes left out]`;
}

const MARKER = /^\[(\d{1,12}) bytes left out\]$/;

/** Of audio, also where the record has its size in its place. */
function bytesInBase64(text: string): number {
  const leftOut = text.length < 40 ? MARKER.exec(text)?.[1] : undefined;
  if (leftOut !== undefined) return Number(leftOut);
  return Math.floor((text.length * 3) / 4) - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0);
}
