/**
 * Puts earlier turns in front of a new input, for a provider that cannot look them up itself, and truncates the
 * result.
 */
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import { outputLimit, promptTokens } from '../model-request/usage.ts';
import { isGatewayItemId } from './gateway-tools.ts';
import { inputItems } from './input-items.ts';

/** One stored response of a chain. */
interface Turn {
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
  const { id, status: _status, ...given } = item;
  // Approvals name the ids of these.
  const members = isGatewayItemId(id) ? { ...given, id } : given;
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

// `truncation: "auto"` for a provider that cannot do it: the oldest turns are dropped until the input fits into the
// model's context window. Pure.

/** Tokens of the window that are kept for the answer, at most, when the request does not limit it. */
const USUAL_ANSWER = 1024;
/** Share of the window that is used, since token counts are estimates. */
const USED = 0.9;

interface Truncated {
  readonly input: readonly JsonObject[];
  /** How many of the first `earlier` items remain. */
  readonly earlier: number;
}

/**
 * A turn begins with a message of the user. Instructions, system and developer messages and the last turn stay,
 * whatever their length; the output of a call is dropped with its call.
 * @param items with earlier turns in front
 * @param earlier how many items are earlier turns
 * @param contextWindow in tokens
 * @returns undefined when nothing has to be dropped
 */
export function truncatedInput(
  items: readonly JsonObject[],
  earlier: number,
  request: JsonObject,
  contextWindow: number,
): Truncated | undefined {
  const answer = outputLimit(request) ?? Math.min(USUAL_ANSWER, contextWindow / 4);
  const room = contextWindow * USED - answer - promptTokens([request['instructions'], request['tools']]);
  const sizes = items.map(promptTokens);
  let size = sizes.reduce((sum, one) => sum + one, 0);
  if (size <= room) return undefined;
  const dropped = new Set<number>();
  const calls = new Set<unknown>();
  const drop = (index: number): void => {
    dropped.add(index);
    size -= sizes[index] ?? 0;
  };
  const lastTurn = items.findLastIndex(beginsTurn);
  for (const [index, item] of items.entries()) {
    if (index >= lastTurn || (size <= room && beginsTurn(item))) break;
    if (stays(item)) continue;
    if (isCall(item)) calls.add(item['call_id']);
    drop(index);
  }
  for (const [index, item] of items.entries()) {
    if (!dropped.has(index) && isCallOutput(item) && calls.has(item['call_id'])) drop(index);
  }
  if (dropped.size === 0) return undefined;
  const left = [...items.keys()].filter((index) => !dropped.has(index));
  return {
    input: left.map((index) => items[index]).filter(isObject),
    earlier: left.filter((index) => index < earlier).length,
  };
}

function isMessage({ type }: JsonObject): boolean {
  return type === undefined || type === null || type === '' || type === 'message';
}

function beginsTurn(item: JsonObject): boolean {
  return isMessage(item) && item['role'] === 'user';
}

function stays(item: JsonObject): boolean {
  return isMessage(item) && (item['role'] === 'system' || item['role'] === 'developer');
}

function isCallOutput({ type }: JsonObject): boolean {
  return typeof type === 'string' && type.endsWith('_call_output');
}

function isCall({ type }: JsonObject): boolean {
  return typeof type === 'string' && type.endsWith('_call');
}
