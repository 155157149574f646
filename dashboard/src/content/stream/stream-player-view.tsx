import './stream-player-view.css';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { CheckField, SelectField } from '../../ui/fields.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Turns } from '../conversation/conversation-view.tsx';
import { assembleStream, type StreamAssembly } from '../conversation/read-stream.ts';
import { readFrames, type StreamFrame } from '../conversation/sse-frames.ts';
import type { Conversation, Dialect } from '../conversation/turn.ts';
import { runNow, type Sliced } from '../sliced.ts';
import { SafeText } from '../text/safe-text.tsx';
import { useSliced } from '../use-sliced.ts';
import { act, framesAt, gapAt, type PlayerAction, speeds, stopped, timeAt, timelineOf } from './stream-player.ts';

export interface RecordedChunk {
  /** Milliseconds since the request. */
  readonly offsetMs: number;
  /** The bytes of the chunk as text: one frame, or several. */
  readonly text: string;
}

interface StreamPlayerProps {
  readonly chunks: readonly RecordedChunk[];
  readonly dialect: Dialect;
}

/** How often the content is updated while playing, in milliseconds. */
const TICK_MS = 80;

/** A recorded stream, replayed at its own pace. */
export function StreamPlayer({ chunks, dialect }: StreamPlayerProps) {
  const timeline = useMemo(() => timelineOf(chunks), [chunks]);
  const [state, setState] = useState({ ...stopped, fromMs: timeline.durationMs });
  const [clock, setClock] = useState(0);
  const [raw, setRaw] = useState(false);
  useEffect(() => setState({ ...stopped, fromMs: timeline.durationMs }), [timeline]);
  useEffect(() => {
    if (!state.playing) return undefined;
    const timer = setInterval(() => setClock(performance.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [state.playing]);
  const time = timeAt(state, timeline, Math.max(clock, state.startedAt));
  useEffect(() => {
    if (state.playing && time >= timeline.durationMs)
      setState({ ...state, playing: false, fromMs: timeline.durationMs });
  }, [state, time]);
  if (chunks.length === 0) return <EmptyState title="No stream is recorded for this exchange." />;

  const run = (action: PlayerAction) => {
    const now = performance.now();
    setClock(now);
    setState(act(state, timeline, now, action));
  };
  const visible = framesAt(timeline, time);
  const gap = gapAt(timeline, time);
  const recordedTime = timeline.recordedAt[Math.max(0, visible - 1)] ?? 0;
  const position = `${formatDuration(recordedTime)}, chunk ${formatCount(visible)} of ${formatCount(chunks.length)}`;
  return (
    <div class="stream-player">
      <div class="content-toolbar">
        <Button look="main" onClick={() => run({ kind: state.playing ? 'pause' : 'play' })}>
          {state.playing ? 'Pause' : 'Play'}
        </Button>
        <Button label="Previous chunk" onClick={() => run({ kind: 'step', by: -1 })}>
          <span aria-hidden="true">|◂</span>
        </Button>
        <Button label="Next chunk" onClick={() => run({ kind: 'step', by: 1 })}>
          <span aria-hidden="true">▸|</span>
        </Button>
        <SelectField
          label="Speed"
          value={String(state.speed)}
          choices={speeds.map((speed) => ({ value: String(speed), title: `${speed}×` }))}
          onChange={(speed) => run({ kind: 'speed', speed: Number(speed) })}
        />
        <CheckField label="Raw chunks" checked={raw} onChange={setRaw} />
      </div>
      <div class="stream-scrubber">
        <input
          type="range"
          aria-label="Time in the stream"
          aria-valuetext={position}
          min={0}
          max={Math.max(1, Math.ceil(timeline.durationMs))}
          step={1}
          value={Math.ceil(time)}
          onInput={(event) => run({ kind: 'seek', timeMs: Number(event.currentTarget.value) })}
        />
        <span>{position}</span>
      </div>
      <p class="stream-note">
        {gap === undefined ? (
          timeline.gaps.length > 0 && `Pauses over 5 s are shortened to 5 s: ${formatCount(timeline.gaps.length)}.`
        ) : (
          <>The provider paused for {formatDuration(gap.recordedMs)}. The player waits 5 s.</>
        )}
      </p>
      {raw ? (
        <RawChunks chunks={chunks} visible={visible} />
      ) : (
        <Assembled chunks={chunks} visible={visible} dialect={dialect} />
      )}
    </div>
  );
}

const RAW_CHUNKS = 30;

function RawChunks({ chunks, visible }: { readonly chunks: readonly RecordedChunk[]; readonly visible: number }) {
  const first = Math.max(0, visible - RAW_CHUNKS);
  return (
    <ol class="stream-chunks" start={first + 1}>
      {chunks.slice(first, visible).map(({ offsetMs, text }, index) => (
        <li key={first + index}>
          <span class="stream-offset">{formatDuration(offsetMs)}</span>
          <SafeText text={text.trimEnd()} look="code" />
        </li>
      ))}
    </ol>
  );
}

interface AssembledProps {
  readonly chunks: readonly RecordedChunk[];
  readonly visible: number;
  readonly dialect: Dialect;
}

interface KeptAssembly {
  readonly chunks: unknown;
  readonly dialect: Dialect;
  readonly assembly: StreamAssembly;
  /** Chunks whose frames have been added. */
  read: number;
}

/** The answer as far as it had arrived. Forward, only the new frames are read; backward, all of them again. */
function Assembled({ chunks, visible, dialect }: AssembledProps) {
  const frames = useSliced(() => framesOfChunks(chunks), [chunks]);
  const kept = useRef<KeptAssembly | undefined>(undefined);
  const all = frames.state === 'done' ? frames.value : undefined;
  const conversation = useSliced(() => assembledUntil(all, visible, kept, chunks, dialect), [all, visible, dialect]);
  const last = useRef<Conversation>(emptyConversation());
  if (conversation.state === 'done') last.current = conversation.value;
  return <Turns conversation={last.current} changes={[]} />;
}

function emptyConversation(): Conversation {
  return { turns: [], tools: [], settings: [], answer: [], problems: [] };
}

/** The frames that each chunk completes: a frame can be split between two chunks. */
function* framesOfChunks(chunks: readonly RecordedChunk[]): Sliced<StreamFrame[][]> {
  const list: StreamFrame[][] = [];
  let open = '';
  for (const [index, { text }] of chunks.entries()) {
    if (index % 50 === 49) yield;
    open += text;
    const end = index === chunks.length - 1 ? open.length : endOfFrames(open);
    list.push(runNow(readFrames(open.slice(0, end))));
    open = open.slice(end);
  }
  return list;
}

function endOfFrames(text: string): number {
  const found = [...text.matchAll(/\r\n\r\n|\n\n|\r\r/g)].at(-1);
  return found === undefined ? 0 : found.index + found[0].length;
}

function* assembledUntil(
  frames: readonly StreamFrame[][] | undefined,
  visible: number,
  kept: { current: KeptAssembly | undefined },
  chunks: unknown,
  dialect: Dialect,
): Sliced<Conversation> {
  if (frames === undefined) return emptyConversation();
  const known = kept.current;
  const current =
    known !== undefined && known.chunks === chunks && known.dialect === dialect && known.read <= visible
      ? known
      : { chunks, dialect, assembly: assembleStream(dialect), read: 0 };
  kept.current = current;
  while (current.read < visible) {
    for (const frame of frames[current.read] ?? []) current.assembly.add(frame);
    current.read += 1;
    if (current.read % 20 === 0) yield;
  }
  const { turns, answer, problems } = current.assembly.read();
  return { turns, tools: [], settings: [], answer, problems };
}
