/**
 * Tools of the gateway's MCP servers in a response: `{"type": "mcp", "server_url": "gateway://<slug>"}`. Reads the
 * definitions of a request, and converts the items of such tools to function calls, which every model understands.
 * OpenAI Responses API: MCP tools.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { isObject } from '../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse } from '../../providers/translate/json.ts';
import { chatToolName, isGatewayServer } from '../../providers/translate/responses-to-chat/tools.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import type { ModelRequest } from '../model-request/model-request.ts';
import type { Refusal } from '../refusal.ts';
import { checkRequest } from '../request-check.ts';

/** A tool as its server describes it. */
export interface GatewayTool {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: JsonObject;
  readonly annotations?: JsonObject | undefined;
}

export interface GatewayToolResult {
  readonly content: readonly unknown[];
  readonly structuredContent?: unknown;
  /** The tool itself failed; the content says why. */
  readonly isError?: boolean | undefined;
}

export interface GatewayToolCall {
  readonly slug: string;
  readonly tool: string;
  readonly arguments: JsonObject;
  /** Of the `mcp_call` in the response. */
  readonly itemId: string;
  /** The client's request; `causationId` is the exchange of the response. */
  readonly request: Omit<ModelRequest, 'body' | 'bodyPieces'>;
  readonly signal: AbortSignal;
}

/** The MCP servers behind the gateway. */
export interface GatewayTools {
  /** Why the caller cannot use the server; undefined when it can. */
  refusal(slug: string, caller: ModelRequest['caller'], param: string): Refusal | undefined;
  /** The tools that the caller can call. @throws Error with a message for the client when the server cannot list them */
  list(slug: string, caller: ModelRequest['caller']): Promise<readonly GatewayTool[]>;
  /**
   * Checks, records and charges the call, and calls the tool once.
   * @throws Error with a message for the client and the model; LogUnavailable
   */
  call(call: GatewayToolCall): Promise<GatewayToolResult>;
}

const SLUG = /^gateway:\/\/([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)\/?$/;

const filter = z.strictObject({ tool_names: z.array(z.string()).nullish(), read_only: z.boolean().nullish() });
const definition = z.looseObject({
  server_label: z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'expected 1 to 64 letters, digits, hyphens and underscores'),
  server_url: z.string().regex(SLUG, 'expected gateway://, followed by the slug of an MCP server of this gateway'),
  allowed_tools: z.union([z.array(z.string()), filter]).nullish(),
  require_approval: z
    .union([z.enum(['always', 'never']), z.strictObject({ always: filter.nullish(), never: filter.nullish() })])
    .nullish(),
});

type ToolFilter = z.infer<typeof filter>;

/** Members with credentials, or of OpenAI's own connectors. */
const NOT_FOR_GATEWAY = ['headers', 'authorization', 'connector_id'];

/** One definition of a request. */
export interface ToolServer {
  readonly label: string;
  readonly slug: string;
  /** Path of `server_url` in the request. */
  readonly param: string;
  allows(tool: GatewayTool): boolean;
  needsApproval(tool: GatewayTool): boolean;
}

/** Whether a request for a response has tools of the gateway. */
export function usesGatewayTools({ tools }: JsonObject): boolean {
  return Array.isArray(tools) && tools.some((tool) => isObject(tool) && isGatewayServer(tool));
}

/** The first malformed definition; undefined when there is none. */
export function refusedGatewayTool({ tools }: JsonObject): Refused | undefined {
  const labels = new Set<unknown>();
  for (const [index, tool] of (Array.isArray(tools) ? tools : []).entries()) {
    if (!isObject(tool) || !isGatewayServer(tool)) continue;
    const at = `tools[${index}]`;
    const checked = checkRequest(definition, tool, ['server_label']);
    if (!checked.ok) {
      const { param, message, code } = checked.refusal;
      return refuse(code, `${at}.${param}`, message.replace(`'${param}'`, `'${at}.${param}'`));
    }
    const foreign = NOT_FOR_GATEWAY.find((name) => (tool[name] ?? null) !== null);
    if (foreign !== undefined) {
      const why = 'the gateway itself authenticates at its MCP servers';
      return refuse('unsupported_parameter', `${at}.${foreign}`, `'${at}.${foreign}' cannot be honoured: ${why}.`);
    }
    if (labels.has(tool['server_label'])) {
      const param = `${at}.server_label`;
      return refuse('invalid_value', param, `Invalid value for '${param}': each server needs a label of its own.`);
    }
    labels.add(tool['server_label']);
  }
  return undefined;
}

/** The definitions of a request that `refusedGatewayTool` accepts. */
export function toolServersIn({ tools }: JsonObject): ToolServer[] {
  return (Array.isArray(tools) ? tools : []).flatMap((tool: unknown, index) =>
    isObject(tool) && isGatewayServer(tool) ? [toolServer(tool, `tools[${index}].server_url`)] : [],
  );
}

function toolServer(tool: JsonObject, param: string): ToolServer {
  const { server_label: label, server_url: url, allowed_tools: allowed, require_approval } = definition.parse(tool);
  const approval = require_approval ?? 'always';
  return {
    label,
    slug: SLUG.exec(url)?.[1] ?? '',
    param,
    allows(one) {
      if (allowed === undefined || allowed === null) return true;
      return Array.isArray(allowed) ? allowed.includes(one.name) : selects(allowed, one);
    },
    needsApproval(one) {
      if (typeof approval === 'string') return approval === 'always';
      const { always, never } = approval;
      const isNamed = (given: ToolFilter | null | undefined) => !isEmpty(given) && selects(given, one);
      return isNamed(always) || !isNamed(never);
    },
  };
}

function isEmpty(given: ToolFilter | null | undefined): given is null | undefined {
  return (given?.tool_names ?? null) === null && (given?.read_only ?? null) === null;
}

/** An empty filter selects every tool. */
function selects({ tool_names: names, read_only: readOnly }: ToolFilter, tool: GatewayTool): boolean {
  if (names !== undefined && names !== null && !names.includes(tool.name)) return false;
  return readOnly === undefined || readOnly === null || (tool.annotations?.['readOnlyHint'] === true) === readOnly;
}

/** The name of the function that stands for a tool. Where the label could end elsewhere, it has a digest of both. */
export function functionName(label: string, tool: string): string {
  const name = tool.replace(/[^A-Za-z0-9_-]/g, '_');
  const isPlain = name === tool && !label.includes('__') && !label.endsWith('_');
  return chatToolName(isPlain ? name : `${name}_${hash('sha256', JSON.stringify([label, tool])).slice(0, 8)}`, label);
}

/** The names by which a model knows a tool of the client. */
export function ownNames({ type, name, tools }: JsonObject): string[] {
  if (typeof name !== 'string') return [];
  if (type !== 'namespace') return [name];
  const inside = Array.isArray(tools) ? tools.filter(isObject) : [];
  return inside.map((tool) => chatToolName(String(tool['name']), name));
}

// Items of such tools. Their ids are `<kind>_<32 hex>_<n>`, like those of other items of a response that the gateway
// generates, by which they differ from those that providers make.

const OWN_ID = /^mcp[lr]?_[0-9a-f]{32}_\d+(?:_[A-Za-z0-9_-]{22})?$/;

/** Whether it is the id of an item of the gateway's own tools. */
export function isGatewayItemId(id: unknown): id is string {
  return typeof id === 'string' && OWN_ID.test(id);
}

/** What an approval request is bound to. */
export interface AskedCall {
  /** The user path of the response, or its key where there is none. */
  readonly owner: string;
  readonly slug: string;
  readonly tool: string;
  readonly arguments: string;
}

const SIGNATURE_HALF = 11;

/**
 * The id of an approval request with a signature, by which the gateway knows its own requests where no response is stored.
 * The second half also covers the arguments, which guardrails may change on the way to the client.
 * @throws Error when there is no key
 */
export function signedRequestId(id: string, asked: AskedCall, sealers: SealerSource): string {
  const { owner, slug, tool, arguments: args } = asked;
  const half = (...facts: readonly string[]) => {
    const sealed = sealers.toSeal().seal('approval request', id, JSON.stringify(facts));
    return hash('sha256', sealed, 'base64url').slice(0, SIGNATURE_HALF);
  };
  return `${id}_${half(owner, slug, tool)}${half(owner, slug, tool, args)}`;
}

/** Whether the gateway made the request for this call; `'for the tool'`: with other arguments. */
export function isOwnRequest(requestId: string, asked: AskedCall, sealers: SealerSource): boolean | 'for the tool' {
  const end = requestId.length - 2 * SIGNATURE_HALF - 1;
  const own = signedRequestId(requestId.slice(0, end), asked, sealers);
  if (own === requestId) return true;
  return own.slice(0, -SIGNATURE_HALF) === requestId.slice(0, -SIGNATURE_HALF) && 'for the tool';
}

/** The first answer to an approval request that is neither yes nor no. */
export function refusedApproval({ input }: JsonObject): Refused | undefined {
  const items: readonly unknown[] = Array.isArray(input) ? input : [];
  const index = items.findIndex((item) => isApproval(item) && typeof item['approve'] !== 'boolean');
  if (index === -1) return undefined;
  const param = `input[${index}].approve`;
  return refuse('invalid_type', param, `Invalid type for '${param}': expected a boolean.`);
}

function isApproval(item: unknown): item is JsonObject {
  return isGatewayItem(item) && item['type'] === 'mcp_approval_response';
}

/** A call that has begun and whose result is not known. */
export function interruptedCall(item: JsonObject): Record<string, unknown> {
  const error =
    'The response was interrupted during this call: whether the tool has run is not known. It is not called again.';
  return { ...item, status: 'failed', error };
}

function isGatewayItem(item: unknown): item is JsonObject {
  if (!isObject(item) || typeof item['type'] !== 'string' || !item['type'].startsWith('mcp_')) return false;
  return isGatewayItemId(item['type'] === 'mcp_approval_response' ? item['approval_request_id'] : item['id']);
}

interface ConvertedItems {
  readonly items: readonly unknown[];
  /** How many of the first items remain, or have replaced, the first `earlier` ones. */
  readonly earlier: number;
}

/**
 * The input with each call of a gateway's tool, and each call that the client did not approve, as a function call with
 * its output; lists of tools and further approvals are left out. Items of providers' own tools stay.
 */
export function asFunctionCalls(input: readonly unknown[], earlier = 0): ConvertedItems {
  if (!input.some(isGatewayItem)) return { items: input, earlier };
  const requests = approvalRequests(input);
  const items: unknown[] = [];
  let before = earlier;
  for (const [index, item] of input.entries()) {
    const given = isGatewayItem(item) ? functionItems(item, requests) : [item];
    items.push(...given);
    if (index < earlier) before += given.length - 1;
  }
  return { items, earlier: before };
}

function approvalRequests(input: readonly unknown[]): ReadonlyMap<unknown, JsonObject> {
  const requests = input.filter(isGatewayItem).filter(({ type }) => type === 'mcp_approval_request');
  return new Map(requests.map((item) => [item['id'], item]));
}

function functionItems(item: JsonObject, requests: ReadonlyMap<unknown, JsonObject>): JsonObject[] {
  if (item['type'] === 'mcp_call') return functionPair(item, filled(item['output']) ?? filled(item['error']) ?? '');
  const request = requests.get(item['approval_request_id']);
  if (item['type'] !== 'mcp_approval_response' || item['approve'] === true || request === undefined) return [];
  const reason = filled(item['reason']);
  return functionPair(request, `The user did not approve this call.${reason === undefined ? '' : ` ${reason}`}`);
}

/** A call of a tool as the model made it, and its output. @param item with an id, a label, a name and arguments */
export function functionPair(item: JsonObject, output: unknown): JsonObject[] {
  const { id: call_id, server_label: label, name, arguments: args } = item;
  return [
    { type: 'function_call', call_id, name: functionName(String(label), String(name)), arguments: args },
    { type: 'function_call_output', call_id, output },
  ];
}

/** A call that the client has approved and that was not made yet, or has not approved. */
export interface ApprovedCall {
  readonly requestId: string;
  readonly isApproved: boolean;
  readonly label: string;
  readonly name: string;
  readonly arguments: string;
}

/** An approval of a request that is not in the input. */
interface UnknownApproval {
  readonly unknown: string;
  readonly isApproved: boolean;
}

/** @param input with earlier turns in front */
export function answeredCalls(input: readonly unknown[]): readonly (ApprovedCall | UnknownApproval)[] {
  const requests = approvalRequests(input);
  const made = new Set(
    input.filter(isGatewayItem).map((item) => item['type'] === 'mcp_call' && item['approval_request_id']),
  );
  const seen = new Set<string>();
  return input.flatMap((item): (ApprovedCall | UnknownApproval)[] => {
    if (!isApproval(item)) return [];
    const requestId = String(item['approval_request_id']);
    const isApproved = item['approve'] === true;
    const answer = JSON.stringify([requestId, isApproved]);
    if (made.has(requestId) || seen.has(answer)) return [];
    seen.add(answer);
    const request = requests.get(requestId);
    if (request === undefined) return [{ unknown: requestId, isApproved }];
    const { server_label: label, name, arguments: args } = request;
    return [{ requestId, isApproved, label: String(label), name: String(name), arguments: String(args ?? '{}') }];
  });
}

/** The text of a result, for the item of its call. */
export function resultText({ content, structuredContent }: GatewayToolResult): string {
  if (content.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return content.map((part) => (isObject(part) ? partText(part) : '')).join('\n');
}

function partText(part: JsonObject): string {
  if (part['type'] === 'text') return String(part['text'] ?? '');
  if (part['type'] === 'image' || part['type'] === 'audio') return `[${part['type']} ${String(part['mimeType'])}]`;
  return JSON.stringify(part);
}

/** The result for the model: the text, or parts where there are images. */
export function outputForModel(result: GatewayToolResult): unknown {
  const images = result.content.filter(isObject).filter(({ type }) => type === 'image');
  if (images.length === 0) return resultText(result);
  const urls = images.map(({ mimeType, data }) => `data:${String(mimeType)};base64,${String(data)}`);
  return [
    { type: 'input_text', text: resultText(result) },
    ...urls.map((image_url) => ({ type: 'input_image', image_url, detail: 'auto' })),
  ];
}
