/** The request of one turn of a model, in a response whose tools the gateway runs. */
import { isObject } from '../../../../json/is-object.ts';
import type { JsonObject } from '../../../../providers/translate/json.ts';
import { isGatewayServer } from '../../../../providers/translate/responses-to-chat/tools.ts';
import type { ModelRequest } from '../../../model-request/model-request.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { asFunctionCalls, type GatewayTool, type ToolServer } from '../../../responses/gateway-tools.ts';

/** Value of `include`: reasoning that a vendor requires back with a later turn. */
export const ENCRYPTED = 'reasoning.encrypted_content';

export interface OfferedTool {
  readonly server: ToolServer;
  readonly tool: GatewayTool;
}

interface ToolRequest {
  /** The request to send, as guardrails have made it. */
  readonly json: JsonObject;
  /** Earlier turns and the new input. */
  readonly items: readonly unknown[];
  /** Only the provider knows the response that the request continues. */
  readonly previousId: string | undefined;
  readonly target: Target;
  readonly record: { readonly id: string };
}

interface NextTurn {
  /** By the name of the function. */
  readonly offered: ReadonlyMap<string, OfferedTool>;
  /** What the model gets after the input. */
  readonly turns: readonly JsonObject[];
  readonly maxOutputTokens: number | undefined;
  /** No further call of a tool of the gateway is made. */
  readonly isLimited: boolean;
}

/** @param client the request of the client, whose rights this one has */
export function modelRequest(
  { json, items, previousId, record, target }: ToolRequest,
  { offered, turns, maxOutputTokens, isLimited }: NextTurn,
  client: ModelRequest,
): ModelRequest {
  const { background: _here, conversation: _ours, previous_response_id: _replayed, ...rest } = json;
  const { max_tool_calls: _most, stream_options: _options, tools: given, tool_choice: _chosen, ...members } = rest;
  const others = Array.isArray(given) ? given.filter((tool) => !isObject(tool) || !isGatewayServer(tool)) : [];
  const functions = [...offered].map(([name, { tool }]) => functionTool(name, tool));
  const isBlocked = isLimited && others.length === 0;
  const body = {
    ...members,
    stream: true,
    store: false,
    input: [...asFunctionCalls(items).items, ...turns],
    ...(others.length + functions.length > 0 && {
      tools: [...others, ...functions],
      tool_choice: isBlocked ? 'none' : toolChoice(json['tool_choice'] ?? 'auto', offered, turns.length > 0),
    }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(previousId !== undefined && { previous_response_id: previousId }),
    // What a vendor requires back with a later turn. The gateway keeps it there for translated models.
    ...(target.provider.capabilities.responses === 'no' && {
      include: [...(Array.isArray(members['include']) ? members['include'] : []), ENCRYPTED],
    }),
  };
  const { 'idempotency-key': _ofClient, ...headers } = client.headers;
  return {
    ...client,
    caller: { ...client.caller, origin: 'tools' },
    causationId: record.id,
    method: 'POST',
    path: '/v1/responses',
    headers,
    body: Buffer.from(JSON.stringify(body)),
  };
}

/** A choice that demands a call holds until one is made. */
function toolChoice(choice: unknown, offered: NextTurn['offered'], isMade: boolean): unknown {
  if (choice === 'required') return isMade ? 'auto' : choice;
  if (!isObject(choice)) return choice;
  if (choice.type === 'allowed_tools') {
    const { tools, mode } = isObject(choice.allowed_tools) ? choice.allowed_tools : choice;
    const allowed = (Array.isArray(tools) ? tools : []).flatMap((tool: unknown) => chosen(tool, offered));
    return { type: 'allowed_tools', mode: isMade ? 'auto' : mode, tools: allowed };
  }
  if (isMade) return 'auto';
  const tools = chosen(choice, offered);
  return tools.length === 1 ? tools[0] : { type: 'allowed_tools', mode: 'required', tools };
}

/** A tool in a choice, as functions where it is a tool of the gateway. */
function chosen(tool: unknown, offered: NextTurn['offered']): unknown[] {
  if (!isObject(tool) || tool.type !== 'mcp') return [tool];
  const { server_label: label, name } = tool;
  const isOf = ({ server, tool: one }: OfferedTool) =>
    server.label === label && ((name ?? null) === null || one.name === name);
  const functions = [...offered].filter(([, one]) => isOf(one));
  return functions.map(([functionName]) => ({ type: 'function', name: functionName }));
}

function functionTool(name: string, { description, inputSchema: parameters }: GatewayTool): JsonObject {
  return { type: 'function', name, description: description ?? '', parameters, strict: false };
}
