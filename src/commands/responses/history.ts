/** Puts earlier turns in front of a new input, for a provider that cannot look them up itself. */
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import { inputItems } from './input-items.ts';

/** One stored response of a chain. */
export interface Turn {
  readonly input_items: readonly JsonObject[];
  readonly output: readonly JsonObject[];
}

/**
 * The items of each turn, oldest first, then the new items as the client sent them. Stored members that are not
 * content (id, status, annotations, log probabilities, empty texts) are left out, and so are calls that were cut off
 * (`isIncompleteCall`). The instructions of earlier turns are not inherited.
 */
export function mergeHistory(chain: readonly Turn[], input: unknown): JsonObject[] {
  const earlier = chain.flatMap((turn) => [
    ...turn.input_items,
    ...turn.output.filter((item) => !isIncompleteCall(item)),
  ]);
  return [...earlier.map(replayed), ...inputItems(input)];
}

/** A tool call within which its response ended: its arguments are incomplete, and no client has executed it. */
function isIncompleteCall({ type, status }: JsonObject): boolean {
  return typeof type === 'string' && type.endsWith('_call') && status === 'incomplete';
}

/** An item without the members that were added for storage. */
export function replayed(item: JsonObject): JsonObject {
  // A reference consists only of its id.
  if (item['type'] === 'item_reference') return item;
  const { id: _id, status: _status, ...members } = item;
  if (!Array.isArray(members['content'])) return members;
  return { ...members, content: members['content'].filter((part) => !isEmptyText(part)).map(replayedPart) };
}

function isEmptyText(part: unknown): boolean {
  return isObject(part) && (part['type'] === 'output_text' || part['type'] === 'input_text') && part['text'] === '';
}

function replayedPart(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { annotations: _annotations, logprobs: _logprobs, ...members } = part;
  return members;
}
