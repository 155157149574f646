/**
 * Checks a request body against a schema, and reports the first problem in the form of the error envelope.
 * The schemas are deliberately shallow: they check the members that the gateway itself reads. Other members are
 * checked by the provider, so a body that passes is forwarded unchanged, with every unknown member.
 */

import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { parseExactly } from '../json/exact-json.ts';
import { type Refused, refuse } from '../providers/translate/json.ts';
import { refusals } from './refusal.ts';

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
