/** The facts of a native message that its events have contained so far. */
import { isObject } from '../../../../json/is-object.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { isErrorBody } from '../../../../providers/upstream-error.ts';
import { readUsage, type TokenUsage } from '../../../model-request/usage.ts';
import { refusals } from '../../../refusal.ts';

export class ObservedMessage {
  answerId: string | undefined;
  stopReason: string | null = null;
  /** Whether the client has received `message_stop`. */
  stopped = false;
  /** Whether the client has received the provider's own `error` event. */
  failed = false;
  /** The last reported usage, member by member: the counts of a stream are cumulative. */
  #usage: JsonObject | undefined;

  noteWhole(message: JsonObject): void {
    this.answerId = filled(message['id']);
    this.#note(message, message);
  }

  note(event: JsonObject): void {
    const { type, message, delta, usage } = event;
    if (type === 'message_start' && isObject(message)) this.noteWhole(message);
    else if (type === 'message_delta') this.#note({ usage }, delta);
    else if (type === 'message_stop') this.stopped = true;
    else if (type === 'error' && isErrorBody(event)) this.failed = true;
  }

  usage(): TokenUsage {
    return readUsage(this.#usage);
  }

  #note({ usage }: JsonObject, stopped: unknown): void {
    if (isObject(usage)) {
      const reported = Object.entries(usage).filter(([, value]) => value !== null);
      this.#usage = { ...this.#usage, ...Object.fromEntries(reported) };
    }
    if (isObject(stopped) && typeof stopped['stop_reason'] === 'string') this.stopReason = stopped['stop_reason'];
  }
}

/** @throws Refusal when a whole answer is not a message */
export function checkedMessage(answer: unknown, provider: string): JsonObject {
  if (isObject(answer) && Array.isArray(answer.content)) return answer;
  throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer that is not a message.`);
}
