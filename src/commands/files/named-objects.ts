/**
 * Stored objects that a request names for its provider to look up. A provider stores the objects of all callers under
 * the gateway's one account and does not know their owners, so a caller who does not see everything may name only
 * those that it sees.
 */
import { withoutByteOrderMark } from '../../json/body-scan.ts';
import type { ItemIndex } from '../../projections/responses.ts';
import {
  type CheckItems,
  type CheckSent,
  holdsItem,
  mayName,
  type Reference,
  referencesIn,
  referencesInForm,
  referencesInQuery,
} from '../model-request/references.ts';
import { files, isObjectId, type TrackedObjects } from '../provider-objects/tracked.ts';
import { refusals } from '../refusal.ts';
import { parseJson } from '../request-check.ts';
import type { FindItem } from '../responses/archive.ts';
import { everything, sees, seesEverything, type VisibilityScope } from '../visibility.ts';
import { remembered } from './stored-objects.ts';

export interface KnownObjects {
  readonly tracked: TrackedObjects;
  /** Also holds the containers and files that answers on record name, under their ids. */
  readonly index: ItemIndex;
  findItem(visibility: VisibilityScope): FindItem;
}

/** Checks the bytes of a request before its provider gets them. They are parsed only when they may name an object. */
export function checkSent(known: KnownObjects): CheckSent {
  return ({ path, body, json, fields, continues }, visibility) => {
    if (seesEverything(visibility)) return undefined;
    const inQuery = path === undefined ? [] : [...referencesInQuery(path)];
    if (body === undefined) return checkAll(inQuery, undefined, visibility, known);
    if (fields !== undefined) return checkAll([...inQuery, ...referencesInForm(fields)], undefined, visibility, known);
    if (!(body instanceof Uint8Array)) throw new Error('a body that is not held cannot be checked');
    const bytes = withoutByteOrderMark(Buffer.from(body.buffer, body.byteOffset, body.byteLength));
    // JSON text in another encoding than UTF-8 always contains zero bytes.
    if (bytes.includes(0)) throw refusals.malformedJson('it is not valid UTF-8');
    if (!mayName(bytes)) return checkAll(inQuery, undefined, visibility, known);
    const parsed = json ?? parseJson(bytes);
    return checkAll([...inQuery, ...referencesIn(parsed, continues)], parsed, visibility, known);
  };
}

/** Checks items before they are stored, so that no stored item makes later requests fail. */
export function checkItems(known: KnownObjects): CheckItems {
  return (items, visibility) =>
    seesEverything(visibility) ? undefined : checkAll([...referencesIn(items)], items, visibility, known);
}

/** @param json what contains the references. Rejects with a Refusal (403, 404) */
function checkAll(
  references: readonly Reference[],
  json: unknown,
  visibility: VisibilityScope,
  known: KnownObjects,
): Promise<void> | undefined {
  return references.length === 0 ? undefined : checkEach(references, json, visibility, known);
}

async function checkEach(
  references: readonly Reference[],
  json: unknown,
  visibility: VisibilityScope,
  known: KnownObjects,
) {
  const checked = new Set<string>();
  const find = known.findItem(visibility);
  for (const { kind, id, param } of references) {
    if (checked.has(`${kind} ${id}`)) continue;
    checked.add(`${kind} ${id}`);
    if (kind === 'item') {
      if (!holdsItem(json, id) && (await find(id)) === undefined) throw refusals.itemNotFound(id);
    } else if (kind === 'file') {
      const isKnown = (await known.tracked.find('file', id, everything)) !== undefined;
      if (isKnown || !(await wasAnswered(id, visibility, known))) await remembered(files, id, visibility, known);
    } else if (!(await wasAnswered(id, visibility, known))) throw refusals.storedReferenceDenied(param);
  }
}

/** Whether an answer that the caller sees names it, for example a container that a tool has created. */
async function wasAnswered(id: string, visibility: VisibilityScope, { index }: KnownObjects): Promise<boolean> {
  if (!isObjectId(id)) return false;
  for await (const { kind, owner } of index.holdersOf(id))
    if (kind === 'response' && sees(visibility, owner)) return true;
  return false;
}
