/**
 * Stored objects that a request names for its provider to look up, and the checks of them, which `commands/files`
 * implements. A member is found by its name, at any depth, in parts and tools of every type; every text in it counts.
 */
import { jsonProblem, unbounded } from '../../json/body-scan.ts';
import { parseExactly } from '../../json/exact-json.ts';
import { isObject } from '../../json/is-object.ts';
import { filled } from '../../providers/translate/json.ts';
import type { VisibilityScope } from '../visibility.ts';

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
  /** The path with its query, where the client chose it. */
  readonly path?: string | undefined;
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
export type CheckSent = (sent: NamingRequest, visibility: VisibilityScope) => Promise<void> | undefined;

/** The same check of items that are to be stored. */
export type CheckItems = (items: readonly object[], visibility: VisibilityScope) => Promise<void> | undefined;

/** What a field of a form or of a query names, by any name in it: `image[file_id]`, `files[0].file_id`, `voice[id]`. */
export function kindOfField(field: string): Reference['kind'] | undefined {
  const names = field.split(/[[\].]+/).map((name) => name.trim());
  for (const [at, name] of names.entries()) {
    const kind = kindOf(name);
    if (kind !== undefined) return kind;
    if (/^id$/i.test(name) && HOLDERS.has(names[at - 1]?.toLowerCase() ?? '')) return 'other';
  }
  return undefined;
}

/** References in the names of fields, and in values that are JSON. */
export function* referencesInForm(fields: readonly NamedValue[]): Generator<Reference> {
  for (const { name, value } of fields) {
    const kind = kindOfField(name);
    if (kind !== undefined) yield { kind, id: value, param: name };
    if (!/^\s*[[{]/.test(value)) continue;
    const bytes = Buffer.from(value);
    if (!mayName(bytes)) continue;
    // What cannot be read like a body is refused.
    if (jsonProblem(bytes, { ...unbounded, depth: FIELD_DEPTH }) !== undefined) {
      yield { kind: 'other', id: name, param: name };
    } else {
      for (const { kind, id } of referencesIn(parsedText(value))) yield { kind, id, param: name };
    }
  }
}

/** Levels of objects and lists in the value of a field. */
const FIELD_DEPTH = 200;

/** Undefined when it is not JSON. */
function parsedText(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}

export function* referencesInQuery(path: string): Generator<Reference> {
  const at = path.indexOf('?');
  if (at === -1) return;
  const query = new URLSearchParams(path.slice(at + 1).replaceAll(';', '&'));
  yield* referencesInForm([...query].map(([name, value]) => ({ name, value })));
}

/** Ids that an answer names besides those of its items: containers that tools have created, and files in them. */
export function idsAnswered(output: unknown): string[] {
  return [...new Set([...referencesIn(output)].filter(({ kind }) => kind !== 'item').map(({ id }) => id))];
}

const MAY_REFER = /.{4}(ids?|uris?)$|cached.?content$/iu;

/**
 * The kind of object that a member of this name refers to. Some servers ignore the case of names, where U+017F is an `s`
 * and U+212A a `k`, and Google's also take `fileId`.
 */
function kindOf(given: string): Reference['kind'] | undefined {
  const name = given.trim();
  if (!MAY_REFER.test(name)) return undefined;
  const words = name.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '_').replaceAll('-', '_');
  if (/(^|_)file_?ids?$/iu.test(words)) return 'file';
  if (/(^|_)(container|vector_?store|skill|previous_?response)_?ids?$/iu.test(words)) return 'other';
  if (/(^|_)(cached_?content|file_?uris?)$/iu.test(words)) return 'other';
  return /^approval_?request_?id$/iu.test(words) ? 'item' : undefined;
}

/** Objects whose `id` names a stored one: a container, the audio of an answer, a stored prompt, a voice. */
const HOLDERS: ReadonlySet<string> = new Set(['container', 'audio', 'prompt', 'voice']);
/** Members whose own members are JSON schemas: these have names that the client chose. */
const SCHEMAS: ReadonlySet<unknown> = new Set(['properties', 'patternProperties', '$defs', 'definitions']);

interface Place {
  readonly value: unknown;
  readonly name: string | number;
  readonly parent: Place | undefined;
  /** The member around it that names an object: every text in it is an id. */
  readonly named: Pick<Reference, 'kind' | 'param'> | undefined;
}

/**
 * The references in a body, at any depth, in order of depth. Not read are members that a provider only passes through:
 * metadata of the request, and the arguments of a tool call.
 * @param continues whether `previous_response_id` of the body itself is checked elsewhere
 */
export function* referencesIn(json: unknown, continues = false): Generator<Reference> {
  const places: Place[] = [{ value: json, name: '', parent: undefined, named: undefined }];
  for (let at = 0; at < places.length; at++) {
    const place = places[at];
    if (place === undefined) return;
    const { value, parent } = place;
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) {
        if (typeof one === 'object' && one !== null) {
          places.push({ value: one, name: index, parent: place, named: place.named });
        } else if (place.named !== undefined && filled(one) !== undefined) yield { ...place.named, id: String(one) };
      }
      continue;
    }
    if (!isObject(value)) continue;
    for (const name in value) {
      const member = value[name];
      const kind = kindOf(name);
      const isContinued = continues && parent === undefined && name === 'previous_response_id';
      const isReference =
        kind !== undefined &&
        !isContinued &&
        !isOfProvider(name, value) &&
        !isPublic(member) &&
        !(SCHEMAS.has(place.name) && isObject(member));
      const named = isReference ? { kind, param: pathOf(place, name) } : place.named;
      if (named !== undefined && filled(member) !== undefined) yield { ...named, id: String(member) };
      const lower = name.toLowerCase();
      if (lower === 'container' && filled(member) !== undefined) {
        yield { kind: 'other', id: String(member), param: pathOf(place, name) };
      }
      if (typeof member !== 'object' || member === null || (named === undefined && isPassedThrough(name, place)))
        continue;
      if (HOLDERS.has(lower) && isObject(member)) {
        for (const own in member) {
          const id = own.toLowerCase() === 'id' ? filled(member[own]) : undefined;
          const param = pathOf(place, name);
          // A container is refused under its own name, whether it is given as an id or as an object.
          if (id !== undefined) yield { kind: 'other', id, param: lower === 'container' ? param : `${param}.${own}` };
        }
      }
      places.push({ value: member, name, parent: place, named });
    }
  }
}

/** Anthropic's own skills are no caller's. */
function isOfProvider(name: string, holder: Record<string, unknown>): boolean {
  return name === 'skill_id' && holder.type === 'anthropic';
}

/** A video that Google's API reads from the web. */
function isPublic(value: unknown): boolean {
  return typeof value === 'string' && /^https:\/\/(www\.youtube\.com|youtu\.be)\//.test(value);
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

/**
 * Parts of the names that are references, and the beginnings of escaped letters, U+002D to U+007F. The last are the letters
 * that some servers take for `s` and `k`, escaped and in UTF-8.
 */
const MARKS = new RegExp(
  [
    ...['file[_-]?(?:id|uri)', 'skill[_-]?id', 'vector[_-]?store', 'previous[_-]?response', 'approval[_-]?request'],
    ...['cached[_-]?content', 'container', '"(?:audio|prompt|voice)"', '\\\\u(?:00[24567]|017f|212a)'],
    ...['\u00c5\u00bf', '\u00e2\u0084\u00aa'],
  ].join('|'),
  'i',
);
/** Longer than any of them. */
const OVERLAP = 32;
const PIECE_BYTES = 64 * 1024;

/** A quick check that may be true without a reference. */
export function mayName(body: Buffer): boolean {
  for (let at = 0; at < body.length; at += PIECE_BYTES) {
    if (MARKS.test(body.toString('latin1', at, Math.min(at + PIECE_BYTES + OVERLAP, body.length)))) return true;
  }
  return false;
}
