/**
 * Serves a recorded answer to another caller: each caller gets its own ids and timestamps, and otherwise the bytes that
 * the first client got.
 */
import { createFrameSplitter } from '../../../providers/sse.ts';
import { parseChunk } from '../../model-request/parse-chunk.ts';
import { type StorableResponse, statusOf } from '../../responses/storable-response.ts';
import { type FactReader, factReader, type RecordedAnswerFacts } from './answer-facts.ts';
import { type DataText, dataText, type Place } from './data-text.ts';
import { findIssued } from './issued-members.ts';
import { answerIdOf, type Issue, type IssuedValue, ItemIds, type ReissuedDialect } from './issued-texts.ts';

/** The recorded bytes that a client got, prepared so that each caller gets its own ids and timestamps. */
export interface AnswerTemplate {
  /** Size in memory, for a store with a limit. */
  readonly bytes: number;
  readonly facts: RecordedAnswerFacts;
  /**
   * Equal to the original byte by byte except for the ids of the answer and of its output items, and for its
   * timestamps. The same issue gives the same bytes. Ids that are equal in the original are equal in the result.
   */
  render(issue: Issue): Buffer;
  /** The response object of `render(issue)`; undefined for other dialects, and for a response without an id. */
  response(issue: Issue): StorableResponse | undefined;
}

const dialects: readonly ReissuedDialect[] = ['chat', 'responses', 'messages', 'embeddings'];

/**
 * Reads an answer once, in time linear in its length.
 * @param bytes the answer as the client got it: JSON, or a whole stream
 * @returns undefined for an answer that cannot be reissued: of another dialect, or not readable
 */
export function templateOf(dialect: string, stream: boolean, bytes: Buffer): AnswerTemplate | undefined {
  const known = dialects.find((name) => name === dialect);
  if (known === undefined) return undefined;
  const template = new Template(known, stream, bytes);
  return template.read() ? template : undefined;
}

/** A value in the original that is replaced. */
interface Cut extends Place {
  readonly value: IssuedValue;
}

/** Estimate of the memory for one cut. */
const CUT_BYTES = 64;

class Template implements AnswerTemplate {
  readonly #dialect: ReissuedDialect;
  readonly #stream: boolean;
  readonly #source: Buffer;
  readonly #reader: FactReader;
  readonly #items = new ItemIds();
  /** In the order of the source. */
  readonly #cuts: Cut[] = [];
  #originalId = '';
  /** The newest response object. */
  #response: readonly Place[] | undefined;
  facts: RecordedAnswerFacts;

  constructor(dialect: ReissuedDialect, stream: boolean, bytes: Buffer) {
    this.#dialect = dialect;
    this.#stream = stream;
    // A copy of its own: the given bytes may be a small part of a large buffer, which they would keep in memory.
    this.#source = Buffer.allocUnsafeSlow(bytes.length);
    bytes.copy(this.#source);
    this.#reader = factReader(dialect, stream);
    this.facts = this.#reader.facts();
  }

  get bytes(): number {
    return this.#source.length + CUT_BYTES * (this.#cuts.length + this.#items.count);
  }

  /** Whether the answer can be reissued. Called once. */
  read(): boolean {
    const isRead = this.#stream ? this.#readStream() : this.#readData(wholeText(this.#source), this.#source.toString());
    this.facts = this.#reader.facts();
    return isRead;
  }

  render(issue: Issue): Buffer {
    return this.#renderPlace({ start: 0, end: this.#source.length }, this.#texts(issue));
  }

  response(issue: Issue): StorableResponse | undefined {
    const status = statusOf({ status: this.facts.finishReason });
    if (this.#response === undefined || this.#originalId === '' || status === undefined) return undefined;
    const texts = this.#texts(issue);
    const json = this.#response.map((place) => this.#renderPlace(place, texts).toString()).join('\n');
    return { id: answerIdOf(this.#dialect, issue.exchangeId, this.#originalId), json, status };
  }

  #readStream(): boolean {
    const splitter = createFrameSplitter({ maxFrameBytes: this.#source.length + 2 });
    let at = 0;
    for (const frame of [...splitter.push(this.#source), splitter.end()]) {
      if (frame === undefined) continue;
      const end = Math.min(at + frame.raw.length, this.#source.length);
      const data = dataText(this.#source, at, end);
      at = end;
      if (data !== undefined && !this.#readEvent(data)) return false;
    }
    return true;
  }

  #readEvent(data: DataText): boolean {
    const json = data.text.toString();
    if (json === '[DONE]') this.#reader.end();
    return json === '[DONE]' || json.trim() === '' || this.#readData(data, json);
  }

  #readData(data: DataText, json: string): boolean {
    const { text } = data;
    const parsed = parseChunk(json);
    if (parsed === undefined) return false;
    this.#reader.read(parsed);
    const { byteOffset } = text;
    findIssued(text, {
      dialect: this.#dialect,
      stream: this.#stream,
      items: this.#items,
      mark: (span, value) => {
        const start = data.placeOf(span.byteOffset - byteOffset);
        this.#cuts.push({ start, end: start + span.length, value });
        if (value === 'answerId') this.#originalId ||= span.toString('utf8', 1, span.length - 1);
      },
      markResponse: (span) => {
        this.#response = data.placesOf(span.byteOffset - byteOffset, span.length);
      },
    });
    return true;
  }

  #texts(issue: Issue): TextOf {
    const { exchangeId, createdAt, completedAt = createdAt } = issue;
    const id = Buffer.from(JSON.stringify(answerIdOf(this.#dialect, exchangeId, this.#originalId)));
    const items = this.#items.texts(exchangeId).map((text) => Buffer.from(text));
    const times = { createdAt: Buffer.from(String(createdAt)), completedAt: Buffer.from(String(completedAt)) };
    return (value) => (typeof value === 'number' ? (items[value] ?? id) : value === 'answerId' ? id : times[value]);
  }

  #renderPlace({ start, end }: Place, textOf: TextOf): Buffer {
    const cuts = this.#cuts.filter((cut) => cut.start >= start && cut.end <= end);
    const grown = cuts.reduce((sum, cut) => sum + textOf(cut.value).length - (cut.end - cut.start), 0);
    const rendered = Buffer.allocUnsafe(end - start + grown);
    let from = start;
    let at = 0;
    for (const cut of cuts) {
      at += this.#source.copy(rendered, at, from, cut.start);
      at += textOf(cut.value).copy(rendered, at);
      from = cut.end;
    }
    this.#source.copy(rendered, at, from, end);
    return rendered;
  }
}

type TextOf = (value: IssuedValue) => Buffer;

/** A whole answer is its own data. */
function wholeText(text: Buffer): DataText {
  return {
    text,
    placeOf: (at) => at,
    placesOf: (at, length) => [{ start: at, end: at + length }],
  };
}
