import type { BatchFrame } from './frame.ts';

/** Some whole frames that follow each other. */
export interface FrameRun {
  readonly buffer: Buffer;
  readonly start: number;
  readonly end: number;
  /** Where they begin in the segment. */
  readonly offset: number;
  readonly frames: readonly BatchFrame[];
}
