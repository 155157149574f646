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

export interface DataText {
  readonly text: Buffer;
  /** The offset in the stream of an offset in the data; offsets in one line are as far apart in both. */
  placeOf(at: number): number;
  /** The places in the stream of a part of the data: one for each of its lines. */
  placesOf(at: number, length: number): readonly Place[];
}

/** A part of the stream: `end` is just after its last byte. */
export interface Place {
  readonly start: number;
  readonly end: number;
}

/**
 * @param source the whole stream
 * @param from first byte of the event, @param to just after its last; undefined for an event without data
 */
export function dataText(source: Buffer, from: number, to: number): DataText | undefined {
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
