/**
 * A recorded stream replayed at its own pace. Pauses of the provider over five seconds are shortened; the player names
 * how long they were.
 */
export interface TimedFrame {
  /** Milliseconds since the request, or since the first frame. */
  readonly offsetMs: number;
}

export interface ShortenedGap {
  /** Before the frame with this index. */
  readonly frame: number;
  readonly recordedMs: number;
}

export interface Timeline {
  /** Of each frame, when the player shows it, in milliseconds; ascending. */
  readonly shownAt: readonly number[];
  readonly recordedAt: readonly number[];
  readonly durationMs: number;
  readonly gaps: readonly ShortenedGap[];
}

export const LONGEST_GAP_MS = 5_000;

/** Frames out of order or without a valid offset are shown with the one before them. */
export function timelineOf(frames: readonly TimedFrame[], longestGapMs = LONGEST_GAP_MS): Timeline {
  const shownAt: number[] = [];
  const recordedAt: number[] = [];
  const gaps: ShortenedGap[] = [];
  let recorded = 0;
  let shown = 0;
  for (const [frame, { offsetMs }] of frames.entries()) {
    const next = Number.isFinite(offsetMs) ? Math.max(offsetMs, recorded) : recorded;
    const gap = next - recorded;
    if (gap > longestGapMs) gaps.push({ frame, recordedMs: gap });
    shown += Math.min(gap, longestGapMs);
    recorded = next;
    shownAt.push(shown);
    recordedAt.push(recorded);
  }
  return { shownAt, recordedAt, durationMs: shown, gaps };
}

/** How many frames are visible at a time of the player. */
export function framesAt({ shownAt }: Timeline, timeMs: number): number {
  let low = 0;
  let high = shownAt.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((shownAt[middle] ?? 0) <= timeMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The gap that the player is in at that time. */
export function gapAt(timeline: Timeline, timeMs: number): ShortenedGap | undefined {
  const next = framesAt(timeline, timeMs);
  return timeline.gaps.find(({ frame }) => frame === next);
}

export interface PlayerState {
  readonly playing: boolean;
  readonly speed: number;
  /** The time of the player when `startedAt` was read. */
  readonly fromMs: number;
  /** The clock when it began to play, in milliseconds. */
  readonly startedAt: number;
}

export const speeds = [0.25, 0.5, 1, 2, 4, 8] as const;

export const stopped: PlayerState = { playing: false, speed: 1, fromMs: 0, startedAt: 0 };

export function timeAt(state: PlayerState, { durationMs }: Timeline, clock: number): number {
  const played = state.playing ? (clock - state.startedAt) * state.speed : 0;
  return Math.min(durationMs, Math.max(0, state.fromMs + played));
}

export type PlayerAction =
  | { readonly kind: 'play' | 'pause' }
  | { readonly kind: 'seek'; readonly timeMs: number }
  | { readonly kind: 'speed'; readonly speed: number }
  /** To the next or the previous frame, paused. */
  | { readonly kind: 'step'; readonly by: 1 | -1 };

export function act(state: PlayerState, timeline: Timeline, clock: number, action: PlayerAction): PlayerState {
  const now = timeAt(state, timeline, clock);
  switch (action.kind) {
    case 'play':
      return { ...state, playing: true, fromMs: now >= timeline.durationMs ? 0 : now, startedAt: clock };
    case 'pause':
      return { ...state, playing: false, fromMs: now };
    case 'seek':
      return { ...state, fromMs: Math.min(timeline.durationMs, Math.max(0, action.timeMs)), startedAt: clock };
    case 'speed':
      return { ...state, speed: action.speed, fromMs: now, startedAt: clock };
    case 'step':
      return { ...state, playing: false, fromMs: stepped(timeline, now, action.by) };
  }
}

/** Frames that are shown at the same time are one step. */
function stepped({ shownAt, durationMs }: Timeline, now: number, by: 1 | -1): number {
  if (by === 1) return shownAt.find((time) => time > now) ?? durationMs;
  return shownAt.findLast((time) => time < now) ?? 0;
}
