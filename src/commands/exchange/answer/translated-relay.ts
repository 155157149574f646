/** An answer that is read as events and written again in the client's dialect. */
import type { Frame } from '../../../providers/sse.ts';
import type { FrameAnswer, Relay } from '../relay.ts';
import type { AnswerReader, AnswerWriter } from './reader-and-writer.ts';

export function translatedRelay<Event>(reader: AnswerReader<Event>, writer: AnswerWriter<Event>): Relay {
  return {
    whole: (_bytes, parsed) => writer.whole(reader.whole(parsed)),
    frame: (frame) => writtenFrame(reader, writer, frame),
    finish: () => writer.finish(),
    broken: (refusal) => writer.broken?.(refusal),
    abandon: (end) => writer.abandon?.(end),
    usage: () => reader.usage(),
    deferredWork: () => reader.deferredWork?.(),
    model: () => reader.model?.(),
    answerId: () => reader.answerId?.(),
    finishReason: () => writer.finishReason?.() ?? null,
    response: () => writer.response?.(),
  };
}

function writtenFrame<Event>(reader: AnswerReader<Event>, writer: AnswerWriter<Event>, frame: Frame): FrameAnswer {
  const { events, terminal, record, refusal } = reader.events(frame);
  const bytes = events.length === 0 ? undefined : writer.events(events);
  return { bytes, terminal: terminal || writer.ended === true, record, refusal };
}
