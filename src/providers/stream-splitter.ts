/** How the pieces of a provider's stream are told apart: server-sent events, or lines of JSON. */
import { createLineSplitter } from './ndjson.ts';
import { createFrameSplitter, type FrameSplitter, type SplitterOptions } from './sse.ts';

export type StreamFormat = 'events' | 'lines';

/** Undefined for what is no stream. Media types are case-insensitive (RFC 9110 §8.3.1). */
export function streamFormatOf(headers: Readonly<Record<string, string>>): StreamFormat | undefined {
  const [type = ''] = headers['content-type']?.toLowerCase().split(';', 1) ?? [];
  if (type.trim() === 'text/event-stream') return 'events';
  return /^application\/(?:x-)?(?:ndjson|jsonl)$/.test(type.trim()) ? 'lines' : undefined;
}

/** The format of a stream that is on record, by the dialect that was spoken. */
export function recordedFormat(dialect: string | undefined): StreamFormat {
  return dialect === 'ollama_chat' ? 'lines' : 'events';
}

export function createSplitter(format: StreamFormat, options: SplitterOptions = {}): FrameSplitter {
  return format === 'lines' ? createLineSplitter(options) : createFrameSplitter(options);
}
