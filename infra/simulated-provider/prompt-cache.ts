/** A prompt cache like Anthropic's: the prompt before a `cache_control` mark is written once, then read. */
import { type Json, type JsonObject, listIn, objectIn } from './json.ts';
import { countTokens } from './tokens.ts';
import { hashOf } from './words.ts';

const KEEP = 10_000;

export interface CacheUse {
  /** Tokens. */
  readonly written: number;
  readonly read: number;
}

const NONE: CacheUse = { written: 0, read: 0 };

export class PromptCache {
  readonly #known = new Set<number>();

  use(body: JsonObject): CacheUse {
    const marked = markedPrefix(body);
    if (marked === undefined) return NONE;
    const tokens = marked.reduce((sum, text) => sum + countTokens(text), 0);
    const key = hashOf(marked.join('\n'), hashOf(String(body.model)));
    if (this.#known.has(key)) return { written: 0, read: tokens };
    if (this.#known.size >= KEEP) this.#known.clear();
    this.#known.add(key);
    return { written: tokens, read: 0 };
  }
}

/** The texts of tools, system and messages, up to and including the last block that carries a mark. */
function markedPrefix(body: JsonObject): string[] | undefined {
  const blocks: Json[] = [
    ...listIn(body.tools),
    ...asBlocks(body.system),
    ...listIn(body.messages).flatMap((message) => asBlocks(objectIn(message).content)),
  ];
  const last = body.cache_control === undefined ? blocks.findLastIndex(isMarked) : blocks.length - 1;
  return last === -1 ? undefined : blocks.slice(0, last + 1).map(wordsOf);
}

function asBlocks(content: Json | undefined): Json[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : listIn(content);
}

function isMarked(block: Json): boolean {
  return objectIn(block).cache_control !== undefined;
}

function wordsOf(block: Json): string {
  const { cache_control: _, text, ...rest } = objectIn(block);
  return typeof text === 'string' ? text : JSON.stringify(rest);
}
