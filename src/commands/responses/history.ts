/** Earlier turns in front of a new input, for a provider that cannot look them up itself. */
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import { inputItems } from './input-items.ts';

/** One stored response of a chain. */
export interface Turn {
  readonly input_items: readonly JsonObject[];
  readonly output: readonly JsonObject[];
}

/**
 * The items of each turn, oldest first, then the new ones as the client sent them. What was stored about an item
 * and is no part of what was said (its id, status, annotations, log probabilities, empty texts) is left out, and so are
 * calls that were cut off (`isIncompleteCall`). The instructions of earlier turns are not inherited.
 */
export function mergeHistory(chain: readonly Turn[], input: unknown): JsonObject[] {
  const earlier = chain.flatMap((turn) => [
    ...turn.input_items,
    ...turn.output.filter((item) => !isIncompleteCall(item)),
  ]);
  return [...earlier.map(replayed), ...inputItems(input)];
}

/** A tool call whose response ended within it: its arguments are not whole, and no client has made the call. */
function isIncompleteCall({ type, status }: JsonObject): boolean {
  return typeof type === 'string' && type.endsWith('_call') && status === 'incomplete';
}

/** An item without what was only stored about it. */
export function replayed(item: JsonObject): JsonObject {
  // Its id is all that a reference says.
  if (item['type'] === 'item_reference') return item;
  const { id: _id, status: _status, ...said } = item;
  if (!Array.isArray(said['content'])) return said;
  return { ...said, content: said['content'].filter((part) => !isEmptyText(part)).map(replayedPart) };
}

function isEmptyText(part: unknown): boolean {
  return isObject(part) && (part['type'] === 'output_text' || part['type'] === 'input_text') && part['text'] === '';
}

function replayedPart(part: unknown): unknown {
  if (!isObject(part)) return part;
  const { annotations: _annotations, logprobs: _logprobs, ...said } = part;
  return said;
}
