/** Reads a log's segments from a position to the last visible event, and checks every frame. */
import { parsePosition, type RecordedEvent } from '../event.ts';
import { CompiledFilter, type ReadAllOptions } from '../log.ts';
import { type EventReader, ReaderIteration } from '../subscription.ts';

import { recordEnd } from './event-record.ts';
import { readFrame, readFrameHeader } from './frame.ts';
import { LogCorrupted } from './log-errors.ts';
import {
  type Block,
  openBlocks,
  type ReadableSegment,
  type ReadableSegments,
  type SegmentBlocks,
} from './segment-blocks.ts';

/** Two blocks of this size are in memory for each reader that has not reached the end. */
const blockBytes = 128 * 1024;

/** What is visible now. */
export function readAllOf(log: ReadableSegments, options: ReadAllOptions): AsyncIterable<RecordedEvent> {
  const after = options.after === undefined ? 0 : parsePosition(options.after);
  const filter = new CompiledFilter(options.filter);
  return new ReaderIteration(() => new LogReader(log, after, filter, log.visible()), options.maxCount, options.signal);
}

export class LogReader implements EventReader {
  readonly #log: ReadableSegments;
  readonly #filter: CompiledFilter;
  readonly #until: number;
  #segment: ReadableSegment | undefined;
  /** Where the next segment begins: later frames in this file were discarded in a recovery. */
  #segmentEnd = Number.POSITIVE_INFINITY;
  #blocks: SegmentBlocks | undefined;
  #block: Block | undefined;
  /** Offset in the segment of the next frame, and its index in the block. */
  #offset = 0;
  #frameAt = 0;
  /** The next record, and the end of its frame. */
  #recordAt = 0;
  #frameEnd = 0;
  #recordPosition = 0;
  /** Everything up to here has been taken or filtered out. */
  #position: number;
  #closed = false;

  /** @param until reads no further than this position, although more may become visible */
  constructor(log: ReadableSegments, after: number, filter: CompiledFilter, until = Number.POSITIVE_INFINITY) {
    this.#log = log;
    this.#position = after;
    this.#filter = filter;
    this.#until = until;
  }

  get position(): number {
    return this.#position;
  }

  take(): RecordedEvent | undefined {
    const block = this.#block;
    if (block === undefined) return undefined;
    const { buffer } = block;
    do {
      while (this.#recordAt < this.#frameEnd) {
        const at = this.#recordAt;
        const end = recordEnd(buffer, at);
        if (end <= at || end > this.#frameEnd) throw this.#corrupted('a record has an impossible length');
        this.#recordAt = end;
        const position = this.#recordPosition++;
        if (position <= this.#position) continue;
        this.#position = position;
        const event = this.#log.records.read(buffer, at, position, this.#filter);
        if (event !== undefined) return event;
      }
    } while (this.#enterFrame(block) === undefined);
    return undefined;
  }

  load(): Promise<boolean> {
    return this.#loadNext().catch((error: unknown) => {
      this.#log.readFailed?.(error);
      throw error;
    });
  }

  async #loadNext(): Promise<boolean> {
    let attempts = 0;
    while (!this.#closed && this.#position < this.#limit()) {
      if (this.#stepOverLoss()) continue;
      if (this.#segment === undefined) await this.#enterSegment();
      const block = await this.#readBlock();
      if (this.#closed) break;
      this.#block = block;
      this.#frameAt = this.#block?.start ?? 0;
      this.#recordAt = 0;
      this.#frameEnd = 0;
      const from = this.#offset;
      const defect = this.#block === undefined ? 'the segment ends too early' : this.#enterFrame(this.#block);
      if (defect === undefined) return true;
      // frames before the wanted one were skipped and the block ended: the search continues in the next block
      if (this.#offset > from) continue;
      // the segment may have come to its end, or it was replaced while it was open
      if (++attempts > 2) throw this.#corrupted(defect);
      this.#leaveSegment();
    }
    return false;
  }

  async #readBlock(): Promise<Block | undefined> {
    try {
      return await this.#blocks?.read(this.#offset, blockBytes, true);
    } catch (error) {
      // closed between two reads of the block: its caller has ended
      if (this.#closed) return undefined;
      throw error;
    }
  }

  close(): void {
    this.#closed = true;
    this.#block = undefined;
    this.#leaveSegment();
  }

  #stepOverLoss(): boolean {
    const lost = this.#log.lostUntil(this.#position + 1);
    if (lost === undefined) return false;
    this.#position = Math.min(lost, this.#limit());
    this.#block = undefined;
    this.#leaveSegment();
    return true;
  }

  #limit(): number {
    return Math.min(this.#until, this.#log.visible());
  }

  async #enterSegment(): Promise<void> {
    const { disk, dir, mark } = this.#log;
    const position = this.#position + 1;
    const segment = this.#log.segmentOf(position);
    if (segment === undefined) throw new LogCorrupted('', 0, `no segment holds position ${position}`);
    const blocks = await openBlocks(disk, dir, segment.name, mark, segment.places);
    if (this.#closed) return blocks.close();
    this.#segment = segment;
    this.#segmentEnd = this.#log.endOf(segment);
    this.#blocks = blocks;
    this.#offset = blocks.seek(position);
  }

  #leaveSegment(): void {
    this.#blocks?.close();
    this.#blocks = undefined;
    this.#segment = undefined;
  }

  /** Enters the frame that holds the next position. Otherwise returns the defect. */
  #enterFrame(block: Block): string | undefined {
    const position = this.#position + 1;
    if (position > this.#limit()) return 'nothing more is visible';
    if (position >= this.#segmentEnd) return 'the segment ends here';
    const { mark } = this.#log;
    for (;;) {
      const header = readFrameHeader(block.buffer, this.#frameAt, block.end, mark);
      if (typeof header === 'string') return header;
      if (header.first > position) throw this.#corrupted(`positions ${position} to ${header.first - 1} are missing`);
      const found = header.last < position ? header : readFrame(block.buffer, this.#frameAt, block.end, mark);
      if (typeof found === 'string') return found;
      this.#offset += found.end - this.#frameAt;
      this.#frameAt = found.end;
      if (found.last < position) continue;
      this.#recordAt = found.start;
      this.#frameEnd = found.end;
      this.#recordPosition = found.first;
      return undefined;
    }
  }

  #corrupted(reason: string): LogCorrupted {
    return new LogCorrupted(this.#segment?.name ?? '', this.#offset, reason);
  }
}
