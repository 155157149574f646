/** The formats of a provider's stream and their splitters: server-sent events, or lines of JSON. */
import { createLineSplitter } from './ndjson.ts';
import { createFrameSplitter, type FrameSplitter, type SplitterOptions } from './sse.ts';

export type StreamFormat = 'events' | 'lines';

/** Undefined for an answer that is not a stream. Media types are case-insensitive (RFC 9110 §8.3.1). */
export function streamFormatOf(headers: Readonly<Record<string, string>>): StreamFormat | undefined {
  const [type = ''] = headers['content-type']?.toLowerCase().split(';', 1) ?? [];
  if (type.trim() === 'text/event-stream') return 'events';
  return /^application\/(?:x-)?(?:ndjson|jsonl)$/.test(type.trim()) ? 'lines' : undefined;
}

/** The format of a recorded stream, by the dialect of the attempt. @param calls of the attempt, at the same time */
export function recordedFormat(dialect: string | undefined, calls = 1): StreamFormat {
  return dialect === 'ollama_chat' && calls === 1 ? 'lines' : 'events';
}

export function createSplitter(format: StreamFormat, options: SplitterOptions = {}): FrameSplitter {
  return format === 'lines' ? createLineSplitter(options) : createFrameSplitter(options);
}
