/** Finds the events of streams while the frames of a segment are walked. */
import type { StreamName } from '../event.ts';
import type { FrameRun } from './frame-run.ts';
import { recordEnd, recordIsOf, recordRevision, recordStream, sameStream } from './record-layout.ts';

/** Collects where the events of one stream lie. */
export class PartCollector {
  readonly #name: Buffer;
  /** Pairs of frame offset and first revision in that frame, ascending. */
  readonly frames: number[] = [];
  /** Revision of the last event; -1 when there is none. */
  last = -1;

  constructor(stream: StreamName) {
    this.#name = Buffer.from(stream);
  }

  add(run: FrameRun): void {
    let frameStart = run.start;
    for (const frame of run.frames) {
      let first = -1;
      for (let at = frame.start; at < frame.end; at = recordEnd(run.buffer, at)) {
        if (!recordIsOf(run.buffer, at, this.#name)) continue;
        this.last = recordRevision(run.buffer, at);
        if (first === -1) first = this.last;
      }
      if (first !== -1) this.frames.push(run.offset + frameStart - run.start, first);
      frameStart = frame.end;
    }
  }
}

/** Collects the last revisions of those streams that have events. */
export class LastRevisions {
  readonly #wanted: ReadonlySet<StreamName>;
  readonly found = new Map<StreamName, number>();

  constructor(wanted: ReadonlySet<StreamName>) {
    this.#wanted = wanted;
  }

  add({ buffer, frames }: FrameRun): void {
    for (const frame of frames) {
      let stream: StreamName | undefined;
      let latest = -1;
      for (let at = frame.start; at < frame.end; at = recordEnd(buffer, at)) {
        // most events follow one of the same stream: their name need not be read again
        if (latest === -1 || !sameStream(buffer, latest, at)) {
          const name = recordStream(buffer, at);
          stream = this.#wanted.has(name) ? name : undefined;
        }
        latest = at;
        if (stream !== undefined) this.found.set(stream, recordRevision(buffer, at));
      }
    }
  }
}
