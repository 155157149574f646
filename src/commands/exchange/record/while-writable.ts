/** Following an answer that is still being recorded ends when the log becomes unavailable: nothing can be added to it then. */
import { type EventLog, LogUnavailable } from '../../../events/log.ts';
import type { LogStatus } from '../../../events/log-status.ts';
import type { AnswerPart } from './replay-answer.ts';

/**
 * @param partsOf the parts of an answer until the signal is aborted, the last one an `end`
 * @throws LogUnavailable, outcome `none`, as soon as the log is unavailable and the answer has not ended
 */
export async function* whileWritable(
  log: Pick<EventLog, 'status' | 'onStatusChange'>,
  ended: AbortSignal,
  partsOf: (signal: AbortSignal) => AsyncGenerator<AnswerPart>,
): AsyncGenerator<AnswerPart> {
  const unavailable = new AbortController();
  const check = ({ state, reason = 'it is unavailable' }: LogStatus) => {
    if (state === 'unavailable') unavailable.abort(new LogUnavailable(reason, 'none'));
  };
  const forget = log.onStatusChange(check);
  try {
    check(log.status());
    for await (const part of partsOf(AbortSignal.any([ended, unavailable.signal]))) {
      yield part;
      if (part.kind === 'end') return;
    }
    if (!ended.aborted) unavailable.signal.throwIfAborted();
  } finally {
    forget();
  }
}
