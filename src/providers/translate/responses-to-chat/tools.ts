/**
 * Tools and `tool_choice` in the format of chat completions.
 *
 * | Responses | Chat |
 * |---|---|
 * | `function` | nested function |
 * | `custom` | function with one string argument `input`; its grammar is in the description, not enforced |
 * | `namespace` | its tools, each named `<namespace>__<name>` |
 * | any other type (web_search, file_search, mcp, …) | refused: no chat provider has it; `withoutUnsupportedTools` removes it where the client allows that |
 * | `tool_choice` of a tool that was never sent | refused: the client demands it |
 * | `tool_choice: "required"` with no callable tool | refused |
 * | `tool_choice: {type: "allowed_tools"}` | only those tools are sent, and its mode is the choice; one that was never sent is refused |
 * | a function or custom tool without a name | refused |
 * | `mcp` with a server of the gateway | not sent here: the gateway sends its tools as functions |
 * | no callable tool | `tool_choice` and `parallel_tool_calls` are not sent |
 */
import { createHash } from 'node:crypto';
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse } from '../json.ts';

// Chat completions have one kind of tool: a function with a flat name. Maps the Responses API's other callable tools to
// such names, and calls with these names back to the tools.

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
function eachCallableTool(
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

export interface ChatTools {
  readonly ok: true;
  /** `tools`, `tool_choice` and `parallel_tool_calls`, if they are sent. */
  readonly members: JsonObject;
}

interface NamedTool {
  readonly name: string;
  readonly identity: ToolIdentity;
  readonly tool: JsonObject;
}

export function chatTools(body: JsonObject): ChatTools | Refused {
  const callable: NamedTool[] = [];
  if (Array.isArray(body['tools'])) {
    const refused = refusedTool(body['tools'], 'tools');
    if (refused !== undefined) return refused;
    eachCallableTool(body['tools'], (tool, identity) => {
      const name = chatToolName(identity.name, identity.namespace);
      callable.push({ name, identity, tool: chatTool(tool, name) });
    });
  }
  const toolChoice = body['tool_choice'];
  if (!isObject(toolChoice) || toolChoice['type'] !== 'allowed_tools') return chosen(body, callable, toolChoice);
  const { tools, mode } = isObject(toolChoice['allowed_tools']) ? toolChoice['allowed_tools'] : toolChoice;
  const allowed = Array.isArray(tools) ? tools.filter(isObject) : [];
  const selections = callable.map(({ identity }) => selectionsOf(identity));
  const known = new Set(selections.flat());
  const unknownTool = allowed.find((entry) => isCallableType(entry['type']) && !known.has(selectionIn(entry)));
  if (unknownTool !== undefined) return notAmongTools(unknownTool);
  const chosenOnes = new Set(allowed.map(selectionIn));
  const left = callable.filter((_tool, at) => selections[at]?.some((selection) => chosenOnes.has(selection)));
  return chosen(body, left, filled(mode) ?? 'auto');
}

const callableTypes: readonly unknown[] = ['function', 'custom', 'namespace'];

function isCallableType(type: unknown): boolean {
  return callableTypes.includes(type);
}

/** Tools of an MCP server of the gateway, which offers them to the model as functions. */
export function isGatewayServer({ type, server_url: url }: JsonObject): boolean {
  return type === 'mcp' && typeof url === 'string' && url.startsWith('gateway://');
}

/** The client's consent that tools which the model's provider does not have are left out: value `drop`. */
export const unsupportedToolsHeader = 'x-gateway-unsupported-tools';

/** Member of `metadata` in a response to a request whose tools were left out. */
const WARNING = 'gateway_unsupported_tools';
/** The longest value that `metadata` may hold. */
const LONGEST_WARNING = 512;

/** The request without the tools that a chat provider does not have, and with a warning that names their types. */
export function withoutUnsupportedTools<Body extends JsonObject>(body: Body): Body {
  const dropped = new Set<string>();
  const tools = Array.isArray(body['tools']) ? supportedTools(body['tools'], dropped) : [];
  if (dropped.size === 0) return body;
  const types = [...dropped].map((type) => `'${type}'`).join(', ');
  const warning = `Not sent to the model: ${types}. Its provider has no such tools.`.slice(0, LONGEST_WARNING);
  const metadata = isObject(body['metadata']) ? body['metadata'] : {};
  return { ...body, tools, metadata: { ...metadata, [WARNING]: warning } };
}

/** @param dropped receives the types of the other tools */
function supportedTools(tools: readonly unknown[], dropped: Set<string>): unknown[] {
  return tools.flatMap((tool) => {
    if (!isObject(tool) || isGatewayServer(tool)) return [tool];
    if (!isCallableType(tool['type'])) {
      dropped.add(String(tool['type']));
      return [];
    }
    return tool['type'] === 'namespace' && Array.isArray(tool['tools'])
      ? [{ ...tool, tools: supportedTools(tool['tools'], dropped) }]
      : [tool];
  });
}

/** Refuses a tool that the model could not call, since it would be lost silently: one of another type, or without a name. */
function refusedTool(tools: readonly unknown[], path: string): Refused | undefined {
  for (const [index, tool] of tools.entries()) {
    if (!isObject(tool) || isGatewayServer(tool)) continue;
    if (!isCallableType(tool['type'])) return unsupportedType(`${path}[${index}].type`, String(tool['type']));
    const nested = tool['function'];
    const name = filled(tool['name']) ?? (isObject(nested) ? filled(nested['name']) : undefined);
    const param = `${path}[${index}].name`;
    if (name === undefined) {
      return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
    }
    if (tool['type'] !== 'namespace' || !Array.isArray(tool['tools'])) continue;
    const inside = refusedTool(tool['tools'], `${path}[${index}].tools`);
    if (inside !== undefined) return inside;
  }
  return undefined;
}

function unsupportedType(param: string, type: string): Refused {
  return refuse(
    'unsupported_value',
    param,
    `'${param}': tools of type '${type}' need a provider with a native Responses API; this model's provider has none. ` +
      `Tools of type ${callableTypes.map((one) => `'${one}'`).join(', ')} work. ` +
      (type === 'mcp' ? "So do MCP servers of this gateway, with the server_url 'gateway://<slug>'. " : '') +
      `The header '${unsupportedToolsHeader}: drop' sends the request without the others.`,
  );
}

function chosen(body: JsonObject, callable: readonly NamedTool[], toolChoice: unknown): ChatTools | Refused {
  const members: Record<string, unknown> = {};
  if (callable.length > 0) {
    members['tools'] = callable.map((entry) => entry.tool);
    if (typeof body['parallel_tool_calls'] === 'boolean') members['parallel_tool_calls'] = body['parallel_tool_calls'];
  }
  if (isObject(toolChoice)) {
    const selection = selectionIn(toolChoice);
    const found = callable.find((entry) => selectionsOf(entry.identity).includes(selection));
    if (found === undefined) return notAmongTools(toolChoice);
    members['tool_choice'] = { type: 'function', function: { name: found.name } };
  } else if (toolChoice === 'required' && callable.length === 0) {
    return refuse(
      'invalid_value',
      'tool_choice',
      "tool_choice is 'required', but no tool is given that this model's provider can call.",
    );
  } else if (typeof toolChoice === 'string' && toolChoice !== '' && callable.length > 0) {
    members['tool_choice'] = toolChoice;
  }
  return { ok: true, members };
}

function notAmongTools(toolChoice: JsonObject): Refused {
  const what = String(filled(toolChoice['name']) ?? toolChoice['type']);
  return refuse(
    'invalid_value',
    'tool_choice',
    `tool_choice demands '${what}', which is not among the tools that this model's provider can call. ` +
      'Give it as a function tool, or choose a provider with a native Responses API.',
  );
}

/** What a `tool_choice` object (or an entry of its allowed tools) selects: equal to one of `selectionsOf` the tool. */
function selectionIn(choice: JsonObject): string {
  if (choice['type'] === 'namespace') return JSON.stringify(['namespace', choice['name']]);
  const nested = choice['function'];
  const name = choice['name'] ?? (isObject(nested) ? nested['name'] : undefined);
  return JSON.stringify([choice['type'], name, filled(choice['namespace'])]);
}

/** A tool in a namespace can be selected with and without it. */
function selectionsOf({ kind, name, namespace }: ToolIdentity): string[] {
  const itself = JSON.stringify([kind, name, undefined]);
  if (namespace === undefined) return [itself];
  return [itself, JSON.stringify([kind, name, namespace]), JSON.stringify(['namespace', namespace])];
}

function chatTool(tool: JsonObject, name: string): JsonObject {
  if (tool['type'] === 'custom') {
    return {
      type: 'function',
      function: {
        name,
        description: customDescription(tool),
        parameters: {
          type: 'object',
          properties: { input: { type: 'string', description: 'The whole input of the tool, as plain text.' } },
          required: ['input'],
          additionalProperties: false,
        },
      },
    };
  }
  const { type, function: nested, name: _name, description, parameters, strict, ...rest } = tool;
  const given = isObject(nested) ? nested : { description, parameters, strict };
  const members: Record<string, unknown> = { name };
  for (const [member, value] of Object.entries(given)) {
    if (member !== 'name' && value !== null && value !== undefined) members[member] = value;
  }
  const beside: Record<string, unknown> = {};
  for (const [member, value] of Object.entries(rest)) {
    if (value !== null && !responsesOnly.has(member)) beside[member] = value;
  }
  return { type, ...beside, function: members };
}

/** Members of a function tool for OpenAI's own tool search and programmatic calling: no effect elsewhere. */
const responsesOnly = new Set(['allowed_callers', 'async', 'defer_loading', 'output_schema']);

function customDescription(tool: JsonObject): string {
  const description = filled(tool['description']) ?? '';
  const format = tool['format'];
  if (!isObject(format) || typeof format['definition'] !== 'string') return description;
  const grammar = `The input must match this ${String(format['syntax'] ?? '')} grammar:\n${format['definition']}`;
  return description === '' ? grammar : `${description}\n\n${grammar}`;
}
