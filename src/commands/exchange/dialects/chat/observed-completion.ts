/** The facts of a chat completion that its chunks have contained so far. */
import { isObject } from '../../../../json/is-object.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';
import { refusals } from '../../../refusal.ts';

export class ObservedCompletion {
  usage: TokenUsage = unknownUsage;
  finishReason: string | null = null;
  answerId: string | undefined;
  /** Whether the client has received the end marker. */
  marked = false;

  /** @param part a chunk, or a whole completion */
  note(part: JsonObject): void {
    this.answerId ??= filled(part['id']);
    if (isObject(part['usage'])) this.usage = readUsage(part['usage']);
    this.finishReason = finishReasonIn(part['choices']) ?? this.finishReason;
  }
}

/** @throws Refusal when a whole answer has no choice, or a choice without a message or text */
export function checkedCompletion(answer: unknown, provider: string): JsonObject {
  const choices = isObject(answer) && Array.isArray(answer.choices) ? answer.choices : [];
  if (!isObject(answer) || choices.length === 0) {
    throw refusals.badAnswer(provider, `The provider '${provider}' gave an answer without a choice.`);
  }
  // Guardrails write text completions as chat completions.
  const hasText = answer.object === 'text_completion';
  if (!choices.every((one) => isObject(one) && (hasText ? typeof one.text === 'string' : isObject(one.message)))) {
    const missing = hasText ? 'text' : 'a message';
    throw refusals.badAnswer(provider, `The provider '${provider}' gave a choice without ${missing}.`);
  }
  return answer;
}

/** Whether this is the usage chunk, which a client gets only when it requested it. */
export function isUsageOnly({ usage, choices }: JsonObject): boolean {
  return isObject(usage) && Array.isArray(choices) && choices.length === 0;
}

/** The finish reason in this completion or chunk, if any. */
function finishReasonIn(choices: unknown): string | undefined {
  if (!Array.isArray(choices)) return undefined;
  const finished = choices.findLast((choice) => isObject(choice) && filled(choice.finish_reason) !== undefined);
  return filled(finished?.finish_reason);
}
