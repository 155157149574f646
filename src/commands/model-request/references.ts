/**
 * Stored objects that a request names for its provider to look up, and the checks of them, which `commands/files`
 * implements. A member is found by its name, at any depth, whatever the type of its part or tool.
 */
import { isObject } from '../../json/is-object.ts';
import { filled } from '../../providers/translate/json.ts';
import type { Sight } from '../visibility.ts';

/**
 * `file`: recorded with its owner. `item`: of an earlier answer. `other`: its owner is known only when an answer on
 * record names it.
 */
export interface Reference {
  readonly kind: 'file' | 'item' | 'other';
  readonly id: string;
  /** The member that names it. */
  readonly param: string;
}

/** A request as its provider is to get it. */
export interface NamingRequest {
  readonly body: Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** The parsed form of the body, where it is known. */
  readonly json?: unknown;
  /** The fields of a form that were read before the call; undefined when the body is no form. */
  readonly fields?: readonly NamedValue[] | undefined;
  /** Whether `previous_response_id` of the body itself is checked elsewhere. */
  readonly continues: boolean;
}

export interface NamedValue {
  readonly name: string;
  readonly value: string;
}

/** Undefined when the request names nothing. Throws or rejects with a Refusal for what the caller may not see. */
export type CheckSent = (sent: NamingRequest, sight: Sight) => Promise<void> | undefined;

/** The same check of items that are to be stored. */
export type CheckItems = (items: readonly object[], sight: Sight) => Promise<void> | undefined;

/** What a field of a form names, by the last name in it: `image[file_id]`, `files[0].file_id`. */
export function kindOfField(field: string): Reference['kind'] | undefined {
  const name = field.split(/[[\].]+/).findLast((part) => part !== '' && !/^\d+$/.test(part));
  return name === undefined ? undefined : kindOf(name);
}

export function* referencesInForm(fields: readonly NamedValue[]): Generator<Reference> {
  for (const { name, value } of fields) {
    const kind = kindOfField(name);
    if (kind !== undefined) yield { kind, id: value, param: name };
  }
}

/** Ids that an answer names besides those of its items: containers that tools have created, and files in them. */
export function idsAnswered(output: unknown): string[] {
  return [...new Set([...referencesIn(output)].filter(({ kind }) => kind !== 'item').map(({ id }) => id))];
}

/** The kind of object that a member of this name refers to. Some servers ignore the case of names. */
function kindOf(name: string): Reference['kind'] | undefined {
  if (!name.includes('_')) return undefined;
  const lower = name.toLowerCase();
  if (/(^|_)file_ids?$/.test(lower)) return 'file';
  if (/(^|_)(container|vector_store|skill|previous_response)_ids?$/.test(lower)) return 'other';
  return lower === 'approval_request_id' ? 'item' : undefined;
}

/** Objects whose `id` names a stored one: a container, the audio of an answer, a stored prompt. */
const HOLDERS: ReadonlySet<string> = new Set(['container', 'audio', 'prompt']);

interface Place {
  readonly value: unknown;
  readonly name: string | number;
  readonly parent: Place | undefined;
}

/**
 * The references in a body, at any depth, in order of depth. Not read are members that a provider only passes through:
 * metadata of the request, and the arguments of a tool call.
 * @param continues whether `previous_response_id` of the body itself is checked elsewhere
 */
export function* referencesIn(json: unknown, continues = false): Generator<Reference> {
  const places: Place[] = [{ value: json, name: '', parent: undefined }];
  for (let at = 0; at < places.length; at++) {
    const place = places[at];
    if (place === undefined) return;
    const { value, parent } = place;
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) {
        if (typeof one === 'object' && one !== null) places.push({ value: one, name: index, parent: place });
      }
      continue;
    }
    if (!isObject(value)) continue;
    for (const name in value) {
      const member = value[name];
      const kind = kindOf(name);
      const isContinued = continues && parent === undefined && name === 'previous_response_id';
      if (kind !== undefined && !isContinued && !isOfProvider(name, value)) {
        for (const id of Array.isArray(member) ? member : [member]) {
          if (filled(id) !== undefined) yield { kind, id: String(id), param: pathOf(place, name) };
        }
      }
      const lower = name.toLowerCase();
      if (lower === 'container' && filled(member) !== undefined) {
        yield { kind: 'other', id: String(member), param: pathOf(place, name) };
      }
      if (typeof member !== 'object' || member === null || isPassedThrough(name, place)) continue;
      if (HOLDERS.has(lower) && isObject(member)) {
        for (const own in member) {
          const id = own.toLowerCase() === 'id' ? filled(member[own]) : undefined;
          const param = pathOf(place, name);
          // A container is refused under its own name, whether it is given as an id or as an object.
          if (id !== undefined) yield { kind: 'other', id, param: lower === 'container' ? param : `${param}.${own}` };
        }
      }
      places.push({ value: member, name, parent: place });
    }
  }
}

/** Anthropic's own skills are no caller's. */
function isOfProvider(name: string, holder: Record<string, unknown>): boolean {
  return name === 'skill_id' && holder.type === 'anthropic';
}

function isPassedThrough(name: string, { value, parent }: Place): boolean {
  if (name === 'metadata') return parent === undefined;
  if (!isObject(value)) return false;
  if (name === 'arguments') return typeof value.name === 'string';
  return name === 'input' && typeof value.type === 'string' && value.type.endsWith('tool_use');
}

function pathOf(place: Place, name: string): string {
  let path = name;
  for (let at = place; at.parent !== undefined; at = at.parent) {
    path = typeof at.name === 'number' ? `[${at.name}]${dotted(path)}` : `${at.name}${dotted(path)}`;
  }
  return path;
}

function dotted(path: string): string {
  return path.startsWith('[') ? path : `.${path}`;
}

/** Whether an item of a body has this id, with its content: the provider need not look it up. */
export function holdsItem(json: unknown, id: string): boolean {
  const input = isObject(json) ? json.input : json;
  return Array.isArray(input) && input.some((item) => isObject(item) && item.id === id && 'arguments' in item);
}

/** Parts of the names that are references, and the beginnings of escaped letters, U+0040 to U+007F. */
const MARKS = [
  ...['file_id', 'container', 'vector_store', 'skill_id', 'previous_response_id', 'approval_request_id'],
  ...['"audio"', '"prompt"', '\\u004', '\\u005', '\\u006', '\\u007'],
];
/** Longer than any of them. */
const OVERLAP = 32;
const PIECE_BYTES = 64 * 1024;

/** A quick check that may be true without a reference. */
export function mayName(body: Buffer): boolean {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    const piece = body.toString('latin1', at, Math.min(at + PIECE_BYTES + OVERLAP, body.length)).toLowerCase();
    if (MARKS.some((mark) => piece.includes(mark))) return true;
  }
  return false;
}
