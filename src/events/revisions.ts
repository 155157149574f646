/** Revisions in engines that have them natively. Inside, a revision is a number, and -1 is a stream without events. */
import type { ReadStreamOptions, StreamWrite } from './log.ts';
import { WrongExpectedRevision } from './log.ts';

/** @throws WrongExpectedRevision when the stream, whose last event is `last`, does not meet the write's expectation. */
export function checkExpectedRevision(write: Pick<StreamWrite, 'stream' | 'expectedRevision'>, last: number): void {
  const expected = write.expectedRevision;
  if (expected === 'any') return;
  const asExpected =
    expected === 'noStream' ? last === -1 : expected === 'exists' ? last !== -1 : Number(expected) === last;
  if (!asExpected || (typeof expected === 'bigint' && expected < 0n)) {
    throw new WrongExpectedRevision(write.stream, expected, last === -1 ? undefined : BigInt(last));
  }
}

/** The revisions to read, in the order in which they are yielded, of a stream that ends at `last`. */
export function* revisionRange(last: number, options: ReadStreamOptions): Generator<number> {
  const maxCount = options.maxCount ?? Number.POSITIVE_INFINITY;
  if (options.direction === 'backwards') {
    const start = Math.min(last, options.fromRevision === undefined ? last : Number(options.fromRevision));
    for (let revision = start; revision >= 0 && start - revision < maxCount; revision--) yield revision;
  } else {
    const start = Math.max(0, Number(options.fromRevision ?? 0n));
    for (let revision = start; revision <= last && revision - start < maxCount; revision++) yield revision;
  }
}
