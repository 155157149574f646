/** Why guardrails cannot rely on what they read of a body. */
import { foldedName } from '../../../json/body-scan.ts';
import { isObject } from '../../../json/is-object.ts';

export type BodyProblem =
  | { readonly kind: 'too deep' }
  /** The path of a member that a provider may take for another: some servers ignore the case of names. */
  | { readonly kind: 'ambiguous'; readonly path: string };

/** Levels of objects and lists. */
export const deepestBody = 200;

/** Members that the dialects read, in messages and around them. */
const known: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'input', 'instructions', 'system', 'prompt', 'suffix', 'stream', 'tools', 'functions'],
  ...['tool_choice', 'response_format', 'metadata', 'user', 'role', 'content', 'type', 'text', 'name', 'tool_calls'],
  ...['function', 'arguments', 'output', 'template', 'raw', 'context', 'previous_response_id', 'conversation'],
]);

/** Below them, names are those of the client's own schemas and data. */
const own: ReadonlySet<string> = new Set([
  'parameters',
  'input_schema',
  'schema',
  'metadata',
  'variables',
  'properties',
]);

/** Undefined when guardrails can read the body. @param isRequest whether the names of members are checked too */
export function bodyProblem(body: unknown, isRequest: boolean): BodyProblem | undefined {
  return problemIn(body, [], isRequest);
}

function problemIn(value: unknown, path: readonly (string | number)[], checksNames: boolean): BodyProblem | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (path.length > deepestBody) return { kind: 'too deep' };
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries()) {
      const problem = problemIn(one, [...path, index], checksNames);
      if (problem !== undefined) return problem;
    }
    return undefined;
  }
  if (!isObject(value)) return undefined;
  // The arguments of a tool call are an object in some dialects.
  const isOwn = path.at(-1) === 'input' && typeof path.at(-2) === 'number';
  for (const name in value) {
    const lower = foldedName(name);
    if (checksNames && !isOwn && lower !== name && known.has(lower)) {
      return { kind: 'ambiguous', path: [...path, name].join('.') };
    }
    const problem = problemIn(value[name], [...path, name], checksNames && !isOwn && !own.has(name));
    if (problem !== undefined) return problem;
  }
  return undefined;
}
