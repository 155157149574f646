/**
 * Chat completions have one kind of tool: a function with a flat name. Maps the Responses API's other callable tools to
 * such names, and calls with these names back to the tools.
 */
import { createHash } from 'node:crypto';
import { isObject } from '../../../json/is-object.ts';
import type { JsonObject } from '../json.ts';

export interface ToolIdentity {
  readonly kind: 'function' | 'custom';
  readonly name: string;
  readonly namespace?: string;
}

/** OpenAI's limit on a function name. */
const longestName = 64;

/** `name`, or `<namespace>__<name>`; beyond 64 characters the end is replaced by a digest of the whole. */
export function chatToolName(name: string, namespace?: string): string {
  if (namespace === undefined) return name;
  const joined = `${namespace}__${name}`;
  if (joined.length <= longestName) return joined;
  const digest = createHash('sha256').update(joined).digest('hex').slice(0, 8);
  return `${joined.slice(0, longestName - 9)}_${digest}`;
}

/** Calls `visit` with every tool that a chat model can call, taken out of its namespace if it has one. */
export function eachCallableTool(
  tools: readonly unknown[],
  visit: (tool: JsonObject, identity: ToolIdentity) => void,
  namespace?: string,
): void {
  for (const tool of tools) {
    if (!isObject(tool)) continue;
    if (tool['type'] === 'namespace' && typeof tool['name'] === 'string' && Array.isArray(tool['tools'])) {
      eachCallableTool(tool['tools'], visit, tool['name']);
    } else if (tool['type'] === 'function' || tool['type'] === 'custom') {
      const nested = tool['function'];
      const name = tool['name'] ?? (isObject(nested) ? nested['name'] : undefined);
      if (typeof name === 'string') visit(tool, { kind: tool['type'], name, namespace });
    }
  }
}

/** The tools that a chat name alone does not identify: custom tools, and tools in a namespace. */
export function toolIdentities(tools: readonly unknown[]): ReadonlyMap<string, ToolIdentity> {
  const identities = new Map<string, ToolIdentity>();
  eachCallableTool(tools, (_tool, identity) => {
    if (identity.kind === 'custom' || identity.namespace !== undefined) {
      identities.set(chatToolName(identity.name, identity.namespace), identity);
    }
  });
  return identities;
}
