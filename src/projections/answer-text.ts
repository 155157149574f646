/**
 * The answer so far, read from a provider's chunks for the live tail. It recognises each dialect by its members: chat
 * completion chunks, Responses and Messages events, Ollama's lines, whole JSON answers. It leaves out what it cannot
 * parse.
 */
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';

export interface AnswerSoFar {
  /** Text for a stream; the parsed JSON of a whole answer, or of a stream's terminal response object. */
  readonly value: unknown;
  readonly tooBig: boolean;
}

export class AnswerText {
  readonly #maxBytes: number;
  /** Chunks that are not parsed yet: they are parsed when the answer is read. */
  #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #text = '';
  #whole: unknown;
  #wholeBytes = 0;
  #tooBig = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** One stream event, or a whole body. */
  add(chunk: Uint8Array): void {
    if (this.#tooBig) return;
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    // Envelopes around single words are a hundred times as large as the words: they are parsed before many are kept.
    if (this.#unreadBytes > 4 * this.#maxBytes) this.#read();
  }

  get bytesKept(): number {
    return this.#unreadBytes + this.#text.length + this.#wholeBytes;
  }

  /** The text of a stream, up to the limit; '' for an answer that is not a stream. */
  text(): string {
    this.#read();
    return this.#text;
  }

  soFar(): AnswerSoFar | undefined {
    this.#read();
    if (this.#whole !== undefined) return { value: this.#whole, tooBig: false };
    if (this.#text === '') return this.#tooBig ? { value: undefined, tooBig: true } : undefined;
    return { value: this.#text, tooBig: this.#tooBig };
  }

  #read(): void {
    const unread = this.#unread;
    this.#unread = [];
    this.#unreadBytes = 0;
    for (const chunk of unread) {
      const text = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('utf8');
      // The first of parallel calls, as the first choice.
      if (/^call: [1-9]/.test(text)) continue;
      if (/^\s*[{[]/.test(text)) this.#takeJson(parse(text), text.length);
      else for (const data of eventData(text)) this.#take(data);
    }
  }

  /** A whole answer, or a line of a stream of them. */
  #takeJson(json: unknown, size: number): void {
    const words = isObject(json) ? wordsOfLine(json, this.#text !== '') : undefined;
    if (words === undefined) this.#keep(json, size);
    else this.#append(words);
  }

  #take(data: string): void {
    const event = parse(data);
    if (!isObject(event)) return;
    const delta = deltaOf(event) ?? wordsOfLine(event, this.#text !== '');
    if (delta !== undefined) this.#append(delta);
    else if (isTerminal(event)) this.#keep(event.response, data.length);
  }

  #keep(whole: unknown, size: number): void {
    if (size > this.#maxBytes) this.#tooBig = true;
    else {
      this.#whole = whole;
      this.#wholeBytes = size;
    }
  }

  #append(delta: string): void {
    if (this.#tooBig) return;
    this.#text += delta;
    if (Buffer.byteLength(this.#text) <= this.#maxBytes) return;
    this.#text = truncate(this.#text, this.#maxBytes);
    this.#tooBig = true;
  }
}

/** The beginning of a text that takes at most `maxBytes` in UTF-8, cut between characters. */
function truncate(text: string, maxBytes: number): string {
  return new TextDecoder().decode(Buffer.from(text).subarray(0, maxBytes), { stream: true });
}

function parse(json: string): unknown {
  try {
    return parseExactly(json);
  } catch {
    return undefined;
  }
}

/** The data of each server-sent event; the end marker `[DONE]` is none. */
function* eventData(text: string): Iterable<string> {
  for (const event of text.split(/\r?\n\r?\n/)) {
    const data = event
      .split(/\r?\n/)
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice('data:'.length))
      .join('\n')
      .trim();
    if (data.startsWith('{')) yield data;
  }
}

/** The text that an event adds to the answer: of the first choice, where there are several. */
function deltaOf(event: Record<string, unknown>): string | undefined {
  if (event.type === 'response.output_text.delta') return typeof event.delta === 'string' ? event.delta : undefined;
  if (event.type === 'content_block_delta') {
    return isObject(event.delta) && typeof event.delta.text === 'string' ? event.delta.text : undefined;
  }
  const choice = Array.isArray(event.choices) ? event.choices[0] : undefined;
  if (!isObject(choice)) return undefined;
  const words = isObject(choice.delta) ? choice.delta.content : choice.text;
  return typeof words === 'string' ? words : undefined;
}

/** The text of one of Ollama's lines. The last line looks like a whole answer, except after earlier lines. */
function wordsOfLine({ done, message }: Record<string, unknown>, hasBegun: boolean): string | undefined {
  if (!isObject(message) || typeof message.content !== 'string') return undefined;
  return done === false || (done === true && hasBegun) ? message.content : undefined;
}

function isTerminal(event: Record<string, unknown>): boolean {
  return ['response.completed', 'response.incomplete', 'response.failed'].includes(String(event.type));
}
