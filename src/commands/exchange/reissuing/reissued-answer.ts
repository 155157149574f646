/**
 * Serves a recorded answer to another caller: each caller gets its own ids and timestamps, and otherwise the bytes that
 * the first client got.
 */

import { createFrameSplitter } from '../../../providers/stream-frames.ts';
import { elementsIn, membersIn } from '../../../providers/translate/json.ts';
import { parseChunk } from '../../model-request/answer-body.ts';
import { type StorableResponse, statusOf } from '../../responses/storable-response.ts';
import {
  answerIdOf,
  type FactReader,
  factReader,
  type Issue,
  type IssuedValue,
  ItemIds,
  type RecordedAnswerFacts,
  type ReissuedDialect,
} from './answer-facts.ts';

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
    const splitter = createFrameSplitter();
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

/**
 * The members of an answer that the gateway issues for each caller: the id of the answer, the ids of the output items
 * of a response, and timestamps. Ids of tool calls are not among them: clients send them back, and the conversation
 * that they belong to is the client's own.
 */
const QUOTE = 0x22;
const OPEN_BRACE = 0x7b;
const OPEN_BRACKET = 0x5b;

interface IssuedMembers {
  readonly dialect: ReissuedDialect;
  readonly stream: boolean;
  readonly items: ItemIds;
  /** @param span a value within the given text */
  mark(span: Buffer, value: IssuedValue): void;
  /** The object of the response in the given text. */
  markResponse(span: Buffer): void;
}

/** @param text a JSON object that is known to parse: the whole answer, or the data of one event of its stream */
function findIssued(text: Buffer, found: IssuedMembers): void {
  switch (found.dialect) {
    case 'responses':
      if (found.stream) inEvent(text, found);
      else inResponse(text, found);
      return;
    case 'messages':
      for (const { name, value } of membersIn(text)) {
        if (!found.stream) markAnswerId(name, value, found);
        else if (name === 'message' && isObjectText(value)) {
          for (const member of membersIn(value)) markAnswerId(member.name, member.value, found);
        }
      }
      return;
    case 'chat':
    case 'embeddings':
      for (const { name, value } of membersIn(text)) {
        markAnswerId(name, value, found);
        if (name === 'created' && isTime(value)) found.mark(value, 'createdAt');
      }
  }
}

function markAnswerId(name: string, value: Buffer, found: IssuedMembers): void {
  if (name === 'id' && isFilledString(value)) found.mark(value, 'answerId');
}

function inEvent(text: Buffer, found: IssuedMembers): void {
  const members = membersIn(text);
  const index = members.findLast(({ name }) => name === 'output_index')?.value.toString();
  const place = index === undefined ? undefined : Number(index);
  for (const { name, value } of members) {
    if (name === 'response' && isObjectText(value)) inResponse(value, found);
    else if (name === 'response_id' && isFilledString(value)) found.mark(value, 'answerId');
    else if (name === 'item_id') markItem(value, place, found);
    else if (name === 'item') inItem(value, place, found);
  }
}

function inResponse(text: Buffer, found: IssuedMembers): void {
  found.markResponse(text);
  for (const { name, value } of membersIn(text)) {
    markAnswerId(name, value, found);
    if (name === 'created_at' && isTime(value)) found.mark(value, 'createdAt');
    else if (name === 'completed_at' && isTime(value)) found.mark(value, 'completedAt');
    else if (name === 'output' && isArrayText(value)) {
      for (const [place, item] of elementsIn(value).entries()) inItem(item, place, found);
    }
  }
}

function inItem(text: Buffer, place: number | undefined, found: IssuedMembers): void {
  if (!isObjectText(text)) return;
  for (const { name, value } of membersIn(text)) if (name === 'id') markItem(value, place, found);
}

function markItem(value: Buffer, place: number | undefined, found: IssuedMembers): void {
  if (!isFilledString(value)) return;
  const original = parseChunk(`{"id":${value}}`)?.['id'];
  if (typeof original === 'string') found.mark(value, found.items.indexOf(original, place));
}

function isFilledString(value: Buffer): boolean {
  return value[0] === QUOTE && value.length > 2;
}

/** A time that is set: some servers send 0 with events that precede the answer. */
function isTime(value: Buffer): boolean {
  return Number(value.toString('latin1')) > 0;
}

function isObjectText(value: Buffer): boolean {
  return value[0] === OPEN_BRACE;
}

function isArrayText(value: Buffer): boolean {
  return value[0] === OPEN_BRACKET;
}

/** The data of one server-sent event, with the place of each of its bytes in the stream. */
const LF = 0x0a;
const CR = 0x0d;
const SPACE = 0x20;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const NAME = Buffer.from('data');
const COLON = 0x3a;
const LINE_FEED = Buffer.from('\n');

/** One line of data. */
interface DataLine {
  /** Offset in the data. */
  readonly at: number;
  /** Offset in the stream. */
  readonly from: number;
  readonly length: number;
}

interface DataText {
  readonly text: Buffer;
  /** The offset in the stream of an offset in the data; offsets in one line are as far apart in both. */
  placeOf(at: number): number;
  /** The places in the stream of a part of the data: one for each of its lines. */
  placesOf(at: number, length: number): readonly Place[];
}

/** A part of the stream: `end` is just after its last byte. */
interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * @param source the whole stream
 * @param from first byte of the event, @param to just after its last; undefined for an event without data
 */
function dataText(source: Buffer, from: number, to: number): DataText | undefined {
  const lines: DataLine[] = [];
  let at = from === 0 && source.compare(BOM, 0, 3, 0, 3) === 0 ? 3 : from;
  let length = 0;
  while (at < to) {
    const end = lineEnd(source, at, to);
    if (isData(source, at, end)) {
      let begin = Math.min(at + NAME.length + 1, end);
      if (begin < end && source[begin] === SPACE) begin += 1;
      if (lines.length > 0) length += 1;
      lines.push({ at: length, from: begin, length: end - begin });
      length += end - begin;
    }
    at = end + (source[end] === CR && source[end + 1] === LF ? 2 : 1);
  }
  const [first] = lines;
  if (first === undefined) return undefined;
  if (lines.length === 1) {
    return {
      text: source.subarray(first.from, first.from + first.length),
      placeOf: (place) => first.from + place,
      placesOf: (place, bytes) => [{ start: first.from + place, end: first.from + place + bytes }],
    };
  }
  const parts = lines.flatMap((line, index) => {
    const bytes = source.subarray(line.from, line.from + line.length);
    return index === 0 ? [bytes] : [LINE_FEED, bytes];
  });
  return {
    text: Buffer.concat(parts),
    placeOf: (place) => placeIn(lines, place),
    placesOf: (place, bytes) => placesIn(lines, place, place + bytes),
  };
}

function lineEnd(source: Buffer, from: number, to: number): number {
  let at = from;
  while (at < to && source[at] !== LF && source[at] !== CR) at += 1;
  return at;
}

function isData(source: Buffer, at: number, end: number): boolean {
  if (end - at < NAME.length || source.compare(NAME, 0, NAME.length, at, at + NAME.length) !== 0) return false;
  return end - at === NAME.length || source[at + NAME.length] === COLON;
}

/** Binary search: an event may consist of many lines. */
function placeIn(lines: readonly DataLine[], at: number): number {
  let low = 0;
  let high = lines.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((lines[middle]?.at ?? 0) <= at) low = middle;
    else high = middle - 1;
  }
  const line = lines[low];
  return line === undefined ? at : line.from + Math.min(at - line.at, line.length);
}

function placesIn(lines: readonly DataLine[], at: number, end: number): Place[] {
  return lines
    .filter((line) => line.at < end && line.at + line.length > at)
    .map((line) => ({
      start: line.from + Math.max(0, at - line.at),
      end: line.from + Math.min(line.length, end - line.at),
    }));
}
