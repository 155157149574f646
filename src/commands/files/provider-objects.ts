/**
 * References to objects that a provider stores under the gateway's one account and whose owner the gateway does not
 * know: containers, vector stores, and the audio of earlier answers. A caller who does not see everything may not
 * name them.
 */
import { isObject } from '../../json/is-object.ts';
import { filled } from '../../providers/translate/json.ts';
import { refusals } from '../refusal.ts';

/** A quick check whether `refuseProviderObjects` might refuse a body; names may be written with escapes. */
export function mayNameProviderObjects(body: Buffer): boolean {
  return MARKS.some((mark) => body.includes(mark));
}

const MARKS = ['container', 'vector_store', '"audio"', '\\u00'];

/** @throws Refusal 403 `stored_reference_denied` */
export function refuseProviderObjects(json: unknown): void {
  const param = providerObjectIn(json);
  if (param !== undefined) throw refusals.storedReferenceDenied(param);
}

/** The member that names such an object. */
export function providerObjectIn(json: unknown): string | undefined {
  if (!isObject(json)) return undefined;
  if (isNamed(json.container)) return 'container';
  for (const [at, tool] of listIn(json.tools)) {
    const { container, vector_store_ids: stores, environment } = tool;
    if (isNamed(container)) return `tools[${at}].container`;
    if (Array.isArray(stores) && stores.length > 0) return `tools[${at}].vector_store_ids`;
    if (isObject(environment) && filled(environment.container_id) !== undefined)
      return `tools[${at}].environment.container_id`;
  }
  for (const [at, { audio }] of listIn(json.messages)) {
    if (isObject(audio) && filled(audio.id) !== undefined) return `messages[${at}].audio.id`;
  }
  return undefined;
}

/** Whether the value is an id, or an object with one. A container that is to be created has no id. */
function isNamed(value: unknown): boolean {
  return (
    filled(value) !== undefined ||
    (isObject(value) && (filled(value.id) !== undefined || filled(value.container_id) !== undefined))
  );
}

function* listIn(list: unknown): Generator<[number, Record<string, unknown>]> {
  if (!Array.isArray(list)) return;
  for (const [at, value] of list.entries()) if (isObject(value)) yield [at, value];
}
