/** The facts of a chat completion that its chunks have contained so far. */
import { isObject } from '../../../../json/is-object.ts';
import { filled, type JsonObject } from '../../../../providers/translate/json.ts';
import { readUsage, type TokenUsage, unknownUsage } from '../../../model-request/usage.ts';

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
