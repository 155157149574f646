import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  act,
  framesAt,
  gapAt,
  stopped,
  timeAt,
  timelineOf,
} from '../../../dashboard/src/content/stream/stream-player.ts';

const at = (...offsets: number[]) => timelineOf(offsets.map((offsetMs) => ({ offsetMs })));

describe('timelineOf', () => {
  it('keeps the pace of the recording and shortens gaps over five seconds', () => {
    const timeline = at(200, 300, 60_300, 60_400);
    expect(timeline.shownAt).toEqual([200, 300, 5_300, 5_400]);
    expect(timeline.gaps).toEqual([{ frame: 2, recordedMs: 60_000 }]);
    expect(gapAt(timeline, 1_000)).toEqual({ frame: 2, recordedMs: 60_000 });
    expect(gapAt(timeline, 5_350)).toBeUndefined();
  });

  it('is ascending for any record', () => {
    fc.assert(
      fc.property(fc.array(fc.double()), (offsets) => {
        const { shownAt, durationMs } = at(...offsets);
        for (const [index, time] of shownAt.entries()) expect(time).toBeGreaterThanOrEqual(shownAt[index - 1] ?? 0);
        expect(durationMs).toBe(shownAt.at(-1) ?? 0);
        expect(framesAt({ shownAt, recordedAt: [], gaps: [], durationMs }, durationMs)).toBe(offsets.length);
      }),
    );
  });
});

describe('act', () => {
  const timeline = at(0, 100, 100, 400);

  it('plays at the chosen speed, pauses, and stops at the end', () => {
    let state = act(stopped, timeline, 1_000, { kind: 'play' });
    expect(timeAt(state, timeline, 1_150)).toBe(150);
    expect(framesAt(timeline, timeAt(state, timeline, 1_150))).toBe(3);
    state = act(state, timeline, 1_150, { kind: 'speed', speed: 2 });
    expect(timeAt(state, timeline, 1_200)).toBe(250);
    state = act(state, timeline, 1_200, { kind: 'pause' });
    expect(timeAt(state, timeline, 9_000)).toBe(250);
    state = act(state, timeline, 9_000, { kind: 'play' });
    expect(timeAt(state, timeline, 20_000)).toBe(400);
    expect(timeAt(act(state, timeline, 20_000, { kind: 'play' }), timeline, 20_000)).toBe(0);
  });

  it('moves to a time and from frame to frame', () => {
    const middle = act(stopped, timeline, 0, { kind: 'seek', timeMs: 150 });
    expect(timeAt(middle, timeline, 5_000)).toBe(150);
    expect(timeAt(act(middle, timeline, 0, { kind: 'step', by: 1 }), timeline, 0)).toBe(400);
    expect(timeAt(act(middle, timeline, 0, { kind: 'step', by: -1 }), timeline, 0)).toBe(100);
    expect(timeAt(act(stopped, timeline, 0, { kind: 'seek', timeMs: 9_999 }), timeline, 0)).toBe(400);
  });
});
