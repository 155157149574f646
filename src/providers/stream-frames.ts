/**
 * Splits a provider's stream into frames without losing a byte: server-sent events ("HTML Standard: server-sent events,
 * event stream interpretation"), or lines of JSON.
 */
import { ProviderFailure } from './provider.ts';

export type StreamFormat = 'events' | 'lines';

/** Undefined for an answer that is not a stream. Media types are case-insensitive (RFC 9110 §8.3.1). */
export function streamFormatOf(headers: Readonly<Record<string, string>>): StreamFormat | undefined {
  const [type = ''] = headers['content-type']?.toLowerCase().split(';', 1) ?? [];
  if (type.trim() === 'text/event-stream') return 'events';
  return /^application\/(?:x-)?(?:ndjson|jsonl)$/.test(type.trim()) ? 'lines' : undefined;
}

/** The format of a recorded stream, by the dialect of the attempt. @param calls of the attempt, at the same time */
export function recordedFormat(dialect: string | undefined, calls = 1): StreamFormat {
  return dialect === 'ollama_chat' && calls === 1 ? 'lines' : 'events';
}

export function createSplitter(format: StreamFormat, options: SplitterOptions = {}): FrameSplitter {
  return format === 'lines' ? createLineSplitter(options) : createFrameSplitter(options);
}

export interface Frame {
  /** The bytes of the event including the blank line that ends it: all frames together are the stream. */
  readonly raw: Buffer;
  /** The data lines joined by line feeds; undefined when there is none, as in a comment. */
  readonly data: string | undefined;
  readonly event?: string;
  /** Of parallel calls: which one sent it, or has ended (see parallel-calls.ts). */
  readonly call?: string;
}

/** Which frames a reader need not read. */
export interface UnreadPattern {
  /** How they begin, with the brace that begins their only line of data. */
  readonly start: string;
  /** Matches, in bytes as Latin-1, what makes such a frame one that has to be read; global. */
  readonly isRead: RegExp;
}

/** Frames that follow each other, all of which a reader need not read. */
export interface UnreadFrames {
  /** The bytes of all. */
  readonly raw: Buffer;
  /** Where each ends in `raw`. */
  readonly ends: readonly number[];
}

/** The data of each frame. */
export function* dataOf({ raw, ends }: UnreadFrames, { start }: UnreadPattern): Generator<string> {
  let from = 0;
  for (const end of ends) {
    yield raw.toString('utf8', from + start.length - 1, end - FRAME_END.length);
    from = end;
  }
}

/**
 * Whether a frame says nothing of an answer: comments, blank data, and the events that keep a stream alive (Anthropic's
 * `ping`, OpenAI's `keepalive`).
 */
export function isFiller({ data, event }: Frame): boolean {
  return data === undefined || event === 'ping' || event === 'keepalive' || data.trim() === '';
}

export interface FrameSplitter {
  /** The events that this piece completes. @throws ProviderFailure (`too_large`) */
  push(piece: Buffer): Frame[];
  /** The same, with frames that need not be read in runs. */
  pushRuns(piece: Buffer, pattern: UnreadPattern): (Frame | UnreadFrames)[];
  /**
   * The rest at the end of the stream, with the final blank line that some servers omit: without it, a client that
   * follows the standard would drop the event.
   */
  end(): Frame | undefined;
}

/** Limit of one event of a provider; a longer one is a failure. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;

interface SplitterOptions {
  /** Default: 16 MiB with a provider; none for what the gateway itself has written or recorded. */
  readonly maxFrameBytes?: number;
  /** Name of the provider in the failure. */
  readonly provider?: string;
}

const LF = 0x0a;
const CR = 0x0d;
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const DATA = Buffer.from('data:');
const SPACE = 0x20;
const LINE_END = Buffer.from('\n');
const NOTHING = Buffer.alloc(0);
const LINE_AND_BLANK_LINE = Buffer.from('\n\n');
const FRAME_END = '\n\n';
const CLOSING_BRACE = 0x7d;
const NO_ENDS: readonly number[] = [];

export function createFrameSplitter(options: SplitterOptions = {}): FrameSplitter {
  const { provider = '', maxFrameBytes = provider === '' ? Number.POSITIVE_INFINITY : MAX_FRAME_BYTES } = options;
  /** Pieces of the unfinished event, with its length and lines so far. */
  let begun: Buffer[] = [];
  let begunBytes = 0;
  let lines = 0;
  let lineIsEmpty = true;
  /** The previous byte was a carriage return, so a line feed now belongs to it. */
  let afterCr = false;
  let first = true;

  const complete = (last: Buffer): Frame => {
    let raw = last;
    if (begun.length > 0) {
      begun.push(last);
      raw = Buffer.concat(begun, begunBytes + last.length);
      begun = [];
      begunBytes = 0;
    }
    if (raw.length > maxFrameBytes) throw tooLong(provider, maxFrameBytes);
    const frame = readFrame(raw, lines, first);
    first = false;
    lines = 0;
    return frame;
  };

  const splitter: FrameSplitter = {
    push(piece) {
      const frames: Frame[] = [];
      let start = 0;
      let at = 0;
      let nextLf = piece.indexOf(LF);
      let nextCr = piece.indexOf(CR);
      if (afterCr && piece.length > 0) {
        if (nextLf === 0) {
          at = 1;
          nextLf = piece.indexOf(LF, 1);
        }
        afterCr = false;
      }
      while (nextLf !== -1 || nextCr !== -1) {
        const isCr = nextCr !== -1 && (nextLf === -1 || nextCr < nextLf);
        const lineEnd = isCr ? nextCr : nextLf;
        const blank = lineIsEmpty && lineEnd === at;
        at = lineEnd + 1;
        if (isCr) {
          if (nextLf === at) {
            at += 1;
            nextLf = piece.indexOf(LF, at);
          } else if (at === piece.length) afterCr = true;
          nextCr = piece.indexOf(CR, at);
        } else nextLf = piece.indexOf(LF, at);
        lineIsEmpty = true;
        if (blank) {
          frames.push(complete(piece.subarray(start, at)));
          start = at;
        } else lines += 1;
      }
      if (at < piece.length) lineIsEmpty = false;
      if (start < piece.length) {
        begun.push(start === 0 ? piece : piece.subarray(start));
        begunBytes += piece.length - start;
        if (begunBytes > maxFrameBytes) throw tooLong(provider, maxFrameBytes);
      }
      return frames;
    },
    pushRuns(piece, { start, isRead }) {
      const found: (Frame | UnreadFrames)[] = [];
      const text = piece.toString('latin1');
      const nextRead = finder(text, isRead);
      const nextReturn = finder(text, /\r/g);
      for (let at = 0; at < piece.length; ) {
        const mayBegin = begunBytes === 0 && !afterCr && text.startsWith(start, at);
        const limit = mayBegin ? Math.min(nextRead(at), nextReturn(at)) : 0;
        const ends = mayBegin ? runEnds(text, { start, at, limit, maxFrameBytes }) : NO_ENDS;
        const runBytes = ends.at(-1);
        if (runBytes === undefined) {
          const blank = text.indexOf(FRAME_END, at);
          const end = blank === -1 ? piece.length : blank + FRAME_END.length;
          found.push(...splitter.push(piece.subarray(at, end)));
          at = end;
        } else {
          found.push({ raw: piece.subarray(at, at + runBytes), ends });
          first = false;
          at += runBytes;
        }
      }
      return found;
    },
    end() {
      if (begunBytes === 0) return undefined;
      // The line feed of a line end whose carriage return has ended the last event.
      if (begunBytes === 1 && begun[0]?.[0] === LF) return complete(NOTHING);
      if (lineIsEmpty) return complete(LINE_END);
      lines += 1;
      return complete(LINE_AND_BLANK_LINE);
    },
  };
  return splitter;
}

/** The places of the matches, or the length of the text. Asked for ascending places, it searches the text once. */
function finder(text: string, pattern: RegExp): (from: number) => number {
  let next = -1;
  return (from) => {
    if (next >= from) return next;
    pattern.lastIndex = from;
    next = pattern.exec(text)?.index ?? text.length;
    return next;
  };
}

interface RunStart {
  readonly start: string;
  readonly at: number;
  readonly limit: number;
  readonly maxFrameBytes: number;
}

/** Where the frames from `first` on that begin with `start` and end before `limit` end, counted from `first`. */
function runEnds(text: string, { start, at: first, limit, maxFrameBytes }: RunStart): readonly number[] {
  const ends: number[] = [];
  for (let at = first; text.startsWith(start, at); ) {
    const line = text.indexOf('\n', at + start.length);
    if (line === -1 || line > limit || text.charCodeAt(line - 1) !== CLOSING_BRACE) break;
    if (text.charCodeAt(line + 1) !== LF || line + FRAME_END.length - at > maxFrameBytes) break;
    at = line + FRAME_END.length;
    ends.push(at - first);
  }
  return ends;
}

function tooLong(provider: string, maxBytes: number): ProviderFailure {
  return new ProviderFailure(provider, 'too_large', `it sent a stream event of more than ${maxBytes} bytes`);
}

/** @param lines number of its lines that are not blank */
function readFrame(raw: Buffer, lines: number, first: boolean): Frame {
  // Nearly every event is a single data line: one comparison, one decoding.
  if (lines === 1 && beginsWithData(raw)) {
    const from = raw[DATA.length] === SPACE ? DATA.length + 1 : DATA.length;
    let end = raw.length;
    while (raw[end - 1] === LF || raw[end - 1] === CR) end -= 1;
    return { raw, data: raw.toString('utf8', from, end) };
  }
  if (lines === 0) return { raw, data: undefined };
  const hasBom = first && raw.length >= 3 && raw.compare(BOM, 0, 3, 0, 3) === 0;
  return readLines(raw, raw.toString('utf8', hasBom ? 3 : 0));
}

/** Byte by byte: the buffer's own comparison takes longer for so few. */
function beginsWithData(raw: Buffer): boolean {
  for (let at = 0; at < DATA.length; at++) if (raw[at] !== DATA[at]) return false;
  return true;
}

function readLines(raw: Buffer, text: string): Frame {
  let data: string | undefined;
  let event: string | undefined;
  let call: string | undefined;
  for (const line of text.split(/\r\n|\n|\r/)) {
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    if (field !== 'data' && field !== 'event' && field !== 'call') continue;
    const value = colon === -1 ? '' : line.slice(line[colon + 1] === ' ' ? colon + 2 : colon + 1);
    if (field === 'event') event = value;
    else if (field === 'call') call ??= value;
    else data = data === undefined ? value : `${data}\n${value}`;
  }
  const failure = data === undefined ? errorWithoutData(text) : undefined;
  if (failure !== undefined) return { raw, data: failure, event: 'error' };
  const frame = event === undefined || event === '' ? { raw, data } : { raw, data, event };
  return call === undefined ? frame : { ...frame, call };
}

/** The error that some servers send outside of `data`: in a field `error` (older llama.cpp), or as a bare object. */
function errorWithoutData(text: string): string | undefined {
  const match = /^(?:error:\s*(.*\S)|({\s*"error".*\S))\s*$/m.exec(text);
  return match?.[1] ?? match?.[2];
}

/** Each line is a frame with the line as data; an empty line has no data. */
export function createLineSplitter(options: SplitterOptions = {}): FrameSplitter {
  const { provider = '', maxFrameBytes = provider === '' ? Number.POSITIVE_INFINITY : MAX_FRAME_BYTES } = options;
  let begun: Buffer[] = [];
  let begunBytes = 0;

  const complete = (last: Buffer): Frame => {
    begun.push(last);
    const raw = begun.length === 1 ? last : Buffer.concat(begun, begunBytes + last.length);
    begun = [];
    begunBytes = 0;
    if (raw.length > maxFrameBytes) throw tooLong(provider, maxFrameBytes);
    const data = raw.toString().trim();
    return { raw, data: data === '' ? undefined : data };
  };

  const splitter: FrameSplitter = {
    push(piece) {
      const frames: Frame[] = [];
      let start = 0;
      for (let end = piece.indexOf(LF); end !== -1; end = piece.indexOf(LF, start)) {
        frames.push(complete(piece.subarray(start, end + 1)));
        start = end + 1;
      }
      if (start < piece.length) {
        begun.push(piece.subarray(start));
        begunBytes += piece.length - start;
        if (begunBytes > maxFrameBytes) throw tooLong(provider, maxFrameBytes);
      }
      return frames;
    },
    pushRuns(piece) {
      return splitter.push(piece);
    },
    end() {
      return begunBytes === 0 ? undefined : complete(Buffer.alloc(0));
    },
  };
  return splitter;
}
