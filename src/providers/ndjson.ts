/** Splits a stream of JSON lines into its lines without losing a byte. */
import { type Frame, type FrameSplitter, MAX_FRAME_BYTES, type SplitterOptions, tooLong } from './sse.ts';

const LF = 0x0a;

/** Each line is a frame with the line as data; an empty line has no data. */
export function createLineSplitter(options: SplitterOptions = {}): FrameSplitter {
  const { maxFrameBytes = MAX_FRAME_BYTES, provider = '' } = options;
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

  return {
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
    end() {
      return begunBytes === 0 ? undefined : complete(Buffer.alloc(0));
    },
  };
}
