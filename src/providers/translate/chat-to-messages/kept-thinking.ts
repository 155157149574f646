/**
 * A model's thinking in the form that Anthropic accepts in later requests: whole blocks with their signatures. They are
 * in `extra_content.anthropic.thinking_blocks` of the message, and again of the tool call that they led to, since some
 * clients send back the one and some the other. Blocks found in both count once.
 *
 * Anthropic requires the blocks at their original places. For blocks before calls, the call determines the place; a
 * block after some of the message's text has the number of preceding characters in `after_text`.
 */
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';

export interface KeptBlock {
  readonly block: JsonObject;
  /** Length of the message's text before it. */
  readonly afterText: number;
}

const VENDOR = 'anthropic';
const BLOCKS = 'thinking_blocks';
const PLACE = 'after_text';

export function isThinking(block: unknown): block is JsonObject {
  return isObject(block) && (block['type'] === 'thinking' || block['type'] === 'redacted_thinking');
}

/** The `extra_content` with these blocks. */
export function extraContentWith(blocks: readonly KeptBlock[]): JsonObject {
  const placed = blocks.map(({ block, afterText }) => (afterText === 0 ? block : { ...block, [PLACE]: afterText }));
  return { [VENDOR]: { [BLOCKS]: placed } };
}

/** Anthropic's part of an `extra_content`. */
export function anthropicMembers(extraContent: unknown): JsonObject {
  const own = isObject(extraContent) ? extraContent[VENDOR] : undefined;
  return isObject(own) ? own : {};
}

export function keptBlocks(extraContent: unknown): KeptBlock[] {
  const blocks = anthropicMembers(extraContent)[BLOCKS];
  if (!Array.isArray(blocks)) return [];
  return blocks.filter(isThinking).map(({ [PLACE]: place, ...block }) => ({
    block,
    afterText: typeof place === 'number' && place > 0 ? place : 0,
  }));
}

/** The blocks without duplicates and without already known ones. @param seen gets what identifies each */
export function withoutKnown(blocks: readonly KeptBlock[], seen = new Set<unknown>()): KeptBlock[] {
  return blocks.filter((kept) => {
    const identity = identityOf(kept);
    if (seen.has(identity)) return false;
    seen.add(identity);
    return true;
  });
}

/** A signature identifies one block; so does redacted data. */
function identityOf({ block }: KeptBlock): unknown {
  return block['signature'] ?? block['data'] ?? block['thinking'];
}
