/** The results of a batch of messages, one line per request ("Message Batches: results"). */
import { isObject } from '../../json/is-object.ts';
import type { Provider } from '../../providers/provider.ts';
import { messageFromChat } from '../../providers/translate/messages-to-chat/answer.ts';
import { outcomeIn } from '../deferred/work-end.ts';
import {
  answerIn,
  contentPath,
  type FileQuestion,
  type ResultFile,
  readLines,
} from '../provider-objects/batch-files.ts';
import { messageBatches, type ObjectKind } from '../provider-objects/tracked.ts';
import { resultLines } from './result-lines.ts';

export interface MessageResult {
  readonly custom_id: string | null;
  readonly result: Readonly<Record<string, unknown>>;
}

/** A batch that is over, as its provider returns it. */
interface EndedBatch {
  readonly kind: ObjectKind;
  readonly provider: Provider;
  readonly batch: Readonly<Record<string, unknown>>;
}

interface RequestedChat {
  readonly stopSequences: readonly string[];
  /** Whether the client requested the model's thinking. */
  readonly thinks: boolean;
}

/** @throws Refusal, before the first line */
export async function messageResults(
  held: EndedBatch,
  made: readonly ResultFile[],
  question: FileQuestion,
): Promise<AsyncIterable<MessageResult>> {
  const { kind, provider, batch } = held;
  if (kind === messageBatches) return resultLines(made, resultAsSent, provider, question);
  const waiting = new Map<string, RequestedChat>();
  if (typeof batch.input_file_id === 'string') {
    await readLines(provider, contentPath(batch.input_file_id), question, (line) => noteRequestedLine(line, waiting));
  }
  const turn = (line: unknown): MessageResult | undefined => {
    const id = isObject(line) && typeof line.custom_id === 'string' ? line.custom_id : null;
    const chat = waiting.get(id ?? '');
    waiting.delete(id ?? '');
    return { custom_id: id, result: resultOf(line, id, chat) };
  };
  // Requests without a line were not made: the batch was cancelled or expired before.
  const outcome = outcomeIn(batch);
  const type = outcome === 'cancelled' ? 'canceled' : outcome === 'expired' ? 'expired' : undefined;
  function* rest(): Generator<MessageResult> {
    for (const id of waiting.keys()) {
      const result = type === undefined ? errored('api_error', 'The provider did not answer the request.') : { type };
      yield { custom_id: id, result };
    }
  }
  return resultLines(made, turn, provider, question, rest);
}

function resultAsSent(line: unknown): MessageResult | undefined {
  if (!isObject(line) || !isObject(line.result)) return undefined;
  return { custom_id: typeof line.custom_id === 'string' ? line.custom_id : null, result: line.result };
}

function noteRequestedLine(line: unknown, waiting: Map<string, RequestedChat>): void {
  if (!isObject(line) || typeof line.custom_id !== 'string') return;
  const body = isObject(line.body) ? line.body : {};
  const stops = [body.stop].flat().filter((stop) => typeof stop === 'string');
  const thinks = ['reasoning_effort', 'reasoning', 'thinking'].some((name) => (body[name] ?? null) !== null);
  waiting.set(line.custom_id, { stopSequences: stops, thinks });
}

function resultOf(line: unknown, id: string | null, chat: RequestedChat | undefined): MessageResult['result'] {
  const { status, body } = answerIn(line) ?? {};
  if (Number(status) < 400) {
    const completion = isObject(body) ? body : {};
    const shell = {
      id: `msg_${String(completion.id ?? id ?? '').replace(/^chatcmpl-/, '')}`,
      model: typeof completion.model === 'string' ? completion.model : '',
      stopSequences: chat?.stopSequences ?? [],
      thoughts: chat?.thinks === true ? ('shown' as const) : ('left_out' as const),
    };
    const message = messageFromChat(body, shell);
    return message === undefined
      ? errored('api_error', 'The provider gave an answer without a choice, or one that was interrupted.')
      : { type: 'succeeded', message };
  }
  const error = isObject(line) && isObject(line.error) ? line.error : isObject(body) ? body.error : undefined;
  const message = isObject(error) && typeof error.message === 'string' ? error.message : 'The provider gave no reason.';
  return errored(errorType(Number(status)), message);
}

function errored(type: string, message: string): MessageResult['result'] {
  return { type: 'errored', error: { type: 'error', error: { type, message } } };
}

/** Anthropic's error types for these statuses. */
function errorType(status: number): string {
  if (status === 404) return 'not_found_error';
  if (status === 429) return 'rate_limit_error';
  return status >= 400 && status < 500 ? 'invalid_request_error' : 'api_error';
}
