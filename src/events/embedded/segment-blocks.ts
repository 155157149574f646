/** A segment as blocks of whole frames, whichever form it is in. */

export interface Block {
  readonly buffer: Buffer;
  /** The requested offset of the segment is at `buffer[start]`. */
  readonly start: number;
  readonly end: number;
}

export interface SegmentBlocks {
  /**
   * Bytes from `offset`, where a frame begins: the first frame whole (if the file has it whole), probably more.
   * Undefined at the end of the segment. The bytes stay valid until the next `read`.
   * @param requestedBytes how much to read when the form of the segment leaves the choice
   * @param readAhead begins to read the following bytes, for a caller that will read them next
   */
  read(offset: number, requestedBytes: number, readAhead: boolean): Promise<Block | undefined>;
  /** Offset of a frame at or before the position. */
  seek(position: number): number;
  close(): void;
}
