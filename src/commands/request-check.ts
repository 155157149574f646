/**
 * Checks a request body against a schema, and reports the first problem in the form of the error envelope.
 * The schemas are deliberately shallow: they check the members that the gateway itself reads. Other members are
 * checked by the provider, so a body that passes is forwarded unchanged, with every unknown member.
 */

import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';
import { type Refused, refuse } from '../providers/translate/json.ts';
import { refusedEffort } from '../providers/translate/responses-to-chat/reasoning.ts';
import { type Refusal, refusals, refusedInTranslation } from './refusal.ts';

export interface Accepted<Request> {
  readonly ok: true;
  /** The same object that was checked. */
  readonly request: Request;
}

export function checkRequest<Schema extends z.ZodType>(
  schema: Schema,
  json: unknown,
  required: readonly string[],
): Accepted<z.infer<Schema>> | Refused {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    return refuse('invalid_type', null, `The request body must be a JSON object, not ${nameOf(json)}.`);
  }
  for (const name of required) {
    const value = Reflect.get(json, name);
    if (value === undefined || value === null) return missingParameter(name);
  }
  const checked = schema.safeParse(json);
  if (checked.success) return { ok: true, request: json as z.infer<Schema> };
  return refusalOf(checked.error.issues, json);
}

function missingParameter(name: string): Refused {
  return refuse('missing_required_parameter', name, `Missing required parameter: '${name}'.`);
}

type Issue = z.core.$ZodIssue;

function refusalOf(issues: readonly Issue[], json: object): Refused {
  const issue = deepest(issues);
  if (issue === undefined) return refuse('invalid_value', null, 'The request body is not valid.');
  const param = pathOf(issue.path);
  const found = valueAt(json, issue.path);
  if (found === undefined && issue.code === 'invalid_type') return missingParameter(param);
  const code = issue.code === 'invalid_type' || issue.code === 'invalid_union' ? 'invalid_type' : 'invalid_value';
  return refuse(code, param, `Invalid value for '${param}': ${expectation(issue)}, but got ${nameOf(found)}.`);
}

function expectation(issue: Issue): string {
  if (issue.code === 'invalid_type') return `expected ${withArticle(issue.expected)}`;
  if (issue.code === 'too_small' && issue.origin !== 'number') return 'expected at least one entry or character';
  if (issue.code === 'invalid_union') return `expected ${unionNames(issue).join(' or ')}`;
  return issue.message;
}

/** The issue that is deepest in the body: of a union's branches, that is the one the client most likely meant. */
function deepest(issues: readonly Issue[]): Issue | undefined {
  const issue = issues[0];
  if (issue?.code !== 'invalid_union') return issue;
  const inner = issue.errors
    .map((branch) => deepest(branch))
    .filter((found) => found !== undefined)
    .filter((found) => found.path.length > 0 || found.code === 'too_small')
    .sort((a, b) => b.path.length - a.path.length)[0];
  return inner === undefined ? issue : { ...inner, path: [...issue.path, ...inner.path] };
}

function unionNames(issue: z.core.$ZodIssueInvalidUnion): string[] {
  const names = issue.errors.map((branch) => {
    const first = branch[0];
    return first?.code === 'invalid_type' ? withArticle(first.expected) : 'another value';
  });
  return [...new Set(names)];
}

function withArticle(type: string): string {
  if (type === 'int') return 'an integer';
  if (type === 'record') return 'an object';
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;
}

function nameOf(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array';
  if (value === '') return 'an empty string';
  return withArticle(typeof value);
}

function valueAt(json: object, path: readonly PropertyKey[]): unknown {
  let value: unknown = json;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function pathOf(path: readonly PropertyKey[]): string {
  return path
    .map((key, at) => (typeof key === 'number' ? `[${key}]` : `${at === 0 ? '' : '.'}${String(key)}`))
    .join('');
}

/**
 * The value of a body that is one JSON text.
 * @param parse parses the text
 * @throws Refusal 400 `invalid_json`
 */
export function parseJson(body: Buffer, parse: (text: string) => unknown = parseExactly): unknown {
  if (!isUtf8(body)) throw refusals.malformedJson('it is not valid UTF-8');
  try {
    return parse(body.toString());
  } catch (error) {
    throw refusals.malformedJson(error instanceof Error ? error.message : 'it cannot be read');
  }
}

// Limits of request values as in OpenAI's API (Anthropic's for its own routes): one table for all routes that call a model.

interface Range {
  readonly name: 'temperature' | 'top_p';
  readonly max: number;
}

const usual: readonly Range[] = [
  { name: 'temperature', max: 2 },
  { name: 'top_p', max: 1 },
];
/** Of Anthropic's API, and of transcriptions. */
const narrow: readonly Range[] = [
  { name: 'temperature', max: 1 },
  { name: 'top_p', max: 1 },
];

/** @param json the body of a request, or the fields of a form, whose numbers are text */
export function limitsRefusal(endpoint: string, json: Readonly<Record<string, unknown>>): Refusal | undefined {
  const isNarrow = endpoint.startsWith('/v1/messages') || endpoint.startsWith('/v1/audio/');
  for (const { name, max } of isNarrow ? narrow : usual) {
    const value = json[name];
    if (value === undefined || value === null || value === '') continue;
    const number = Number(value);
    if (number > max) return outside(name, 'above maximum value', `<= ${max}`, number, 'decimal_above_max_value');
    if (number < 0) return outside(name, 'below minimum value', '>= 0', number, 'decimal_below_min_value');
  }
  const effort = endpoint.startsWith('/v1/responses') ? effortRefusal(json['reasoning']) : undefined;
  if (effort !== undefined) return effort;
  const { metadata } = json;
  return typeof metadata === 'object' && metadata !== null ? metadataRefusal(metadata) : undefined;
}

/** The levels of the Responses API are a closed list, also where the provider has that API itself. */
function effortRefusal(reasoning: unknown): Refusal | undefined {
  const refused = isObject(reasoning) ? refusedEffort(reasoning['effort'], 'reasoning.effort') : undefined;
  return refused === undefined ? undefined : refusedInTranslation(refused.refusal);
}

function outside(name: string, what: string, expected: string, got: number, code: string): Refusal {
  const message = `Invalid '${name}': decimal ${what}. Expected a value ${expected}, but got ${got} instead.`;
  return refusals.invalidRequest(message, name, code);
}

/** Free text that a client attaches to an object, within OpenAI's limits. */
export type Metadata = Readonly<Record<string, string>>;

const MAX_METADATA_PAIRS = 16;
const MAX_KEY_LENGTH = 64;
const MAX_VALUE_LENGTH = 512;

/** The existing pairs, overwritten by the new ones. */
export function mergedMetadata(before: Metadata, given: Metadata): Metadata {
  return { ...before, ...given };
}

/** Checks text values only; the schema of the route refuses other values. */
export function metadataRefusal(metadata: object): Refusal | undefined {
  const pairs = Object.entries<unknown>({ ...metadata });
  if (pairs.length > MAX_METADATA_PAIRS) {
    const message = `'metadata' may have at most ${MAX_METADATA_PAIRS} pairs, but it would have ${pairs.length}.`;
    return refusals.invalidRequest(message, 'metadata', 'metadata_max_properties_exceeded');
  }
  for (const [key, value] of pairs) {
    if (isLonger(key, MAX_KEY_LENGTH)) return tooLong(`The key '${beginningOf(key)}…'`, MAX_KEY_LENGTH);
    if (typeof value === 'string' && isLonger(value, MAX_VALUE_LENGTH))
      return tooLong(`The value of '${key}'`, MAX_VALUE_LENGTH);
  }
  return undefined;
}

/** Counts code points, as OpenAI does. Each is one or two units of a string, so few texts need to be counted. */
function isLonger(text: string, limit: number): boolean {
  return text.length > 2 * limit || (text.length > limit && [...text].length > limit);
}

function beginningOf(key: string): string {
  return [...key.slice(0, 2 * MAX_KEY_LENGTH)].slice(0, MAX_KEY_LENGTH).join('');
}

function tooLong(what: string, limit: number): Refusal {
  const message = `${what} in 'metadata' is longer than ${limit} characters.`;
  return refusals.invalidRequest(message, 'metadata', 'string_above_max_length');
}
