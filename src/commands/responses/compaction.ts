/**
 * Compactions that the gateway makes for providers without `/v1/responses/compact`: a summary in an item whose content only
 * the gateway can read, and only for callers who see what its creator stores.
 */
import { z } from 'zod';
import type { Actor, UserPath } from '../../events/event.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from '../../providers/translate/json.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import { type Owner, sees, type VisibilityScope } from '../visibility.ts';

/** The first characters of its content. */
const MARK = 'chancery.compaction.1.';
/** What the content is bound to: secrets of providers have other places. */
const PLACE = ['compaction', 'summary'] as const;

const sealed = z.object({ summary: z.string(), userPath: z.string().optional(), createdBy: z.string() });

type OwnCompaction = JsonObject & { readonly encrypted_content: string };

export function isOwnCompaction(item: unknown): item is OwnCompaction {
  if (!isObject(item) || item['type'] !== 'compaction') return false;
  const { encrypted_content: content } = item;
  return typeof content === 'string' && isOwnContent(content);
}

export function isOwnContent(text: string): boolean {
  return text.startsWith(MARK);
}

/** @returns the `encrypted_content` of an item. @throws Error when there is no key */
export function sealCompaction(summary: string, { userPath, createdBy }: Owner, sealers: SealerSource): string {
  return MARK + sealers.toSeal().seal(...PLACE, JSON.stringify({ summary, userPath, createdBy }));
}

/** As a message; undefined when it is damaged, was made elsewhere, or the caller may not see it. */
export function openCompaction(
  content: string,
  visibility: VisibilityScope,
  sealers: SealerSource,
): JsonObject | undefined {
  try {
    const opened = sealed.parse(parseExactly(sealers.toOpen().open(...PLACE, content.slice(MARK.length))));
    const owner = { userPath: opened.userPath as UserPath | undefined, createdBy: opened.createdBy as Actor };
    if (!sees(visibility, owner)) return undefined;
    return { type: 'message', role: 'user', content: `Summary of the conversation so far:\n\n${opened.summary}` };
  } catch {
    return undefined;
  }
}
