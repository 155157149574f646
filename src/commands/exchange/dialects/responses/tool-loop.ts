/**
 * A response whose tools the gateway runs. The model is called in exchanges of their own, each with the whole
 * conversation so far; between them the gateway calls the tools of its MCP servers. What the client gets is one response:
 * the items and events of all turns, under one numbering (OpenAI Responses API: streaming events, MCP).
 */
import { toolCallBegun, toolCallEnded } from '../../../../events/catalogue/exchange.ts';
import { type EventLog, LogUnavailable } from '../../../../events/log.ts';
import { isObject } from '../../../../json/is-object.ts';
import { failureForClients } from '../../../../providers/translate/chat-to-responses/response-object.ts';
import { filled, type JsonObject, parsedObject } from '../../../../providers/translate/json.ts';
import type { SealerSource } from '../../../credentials/sealed-credentials.ts';
import type { Client, ModelRequest } from '../../../model-request/model-request.ts';
import type { Target } from '../../../model-request/routing-types.ts';
import { Refusal, refusals } from '../../../refusal.ts';
import type { FindItem } from '../../../responses/archive.ts';
import {
  type ApprovedCall,
  type AskedCall,
  functionName,
  functionPair,
  type GatewayTool,
  type GatewayTools,
  interruptedCall,
  outputForModel,
  ownNames,
  resultText,
  signedRequestId,
  type ToolServer,
} from '../../../responses/gateway-tools.ts';
import { responseOfItem } from '../../../responses/input-items.ts';
import type { MadeOutput } from '../../dialect.ts';
import type { ExchangeRecord } from '../../exchange-record.ts';
import { addUsage, type ModelEvents, modelEvents } from './model-turn.ts';
import { approverOf, claimApprovals } from './tool-approvals.ts';
import { ENCRYPTED, modelRequest, type OfferedTool } from './tool-request.ts';

/** Bounds of one response, where the request sets no lower one. */
const MAX_TOOL_CALLS = 128;
/** The least that providers accept as `max_output_tokens`. */
const LEAST_OUTPUT_TOKENS = 16;

export interface ToolLoopOptions {
  readonly tools: GatewayTools;
  readonly log: Pick<EventLog, 'readStream'>;
  /** Sign requests for approvals. */
  readonly sealers: SealerSource;
  /** Runs an exchange that calls this target. Never rejects. */
  callModel(request: ModelRequest, client: Client, target: Target): Promise<void>;
}

export interface ToolLoopInput {
  /** The request to send, as guardrails have made it. */
  readonly json: JsonObject;
  /** Earlier turns and the new input. */
  readonly items: readonly unknown[];
  /** Only the provider knows the response that the request continues. */
  readonly previousId: string | undefined;
  readonly servers: readonly ToolServer[];
  /** The response without any output. */
  readonly shell: JsonObject;
  readonly target: Target;
  readonly record: ExchangeRecord;
  /** Finds the stored items that the caller sees. */
  readonly find: FindItem;
  /** Whether the calls of tools are recorded with the output so far, so that the response can be resumed. */
  readonly recordsItems: boolean;
  /** The output before the gateway stopped. */
  readonly made: MadeOutput | undefined;
  /** Unix seconds. */
  readonly now: () => number;
}

/** A call that the model has made, at its place in the output. */
interface MadeCall {
  readonly index: number;
  readonly offered: OfferedTool;
  /** `mcp_call`, without a result. */
  item: JsonObject;
  /** The id by which the model knows the call. */
  readonly callId: string;
  /** An item that asks for approval is complete only with its arguments. */
  readonly needsApproval: boolean;
}

/** How a turn of the model ended. */
interface Turn {
  readonly end: JsonObject;
  readonly calls: readonly MadeCall[];
  /** The client has to answer: an approval, or the output of a tool of its own. */
  readonly waitsForClient: boolean;
}

export class ToolLoop {
  readonly #options: ToolLoopOptions;
  readonly #given: ToolLoopInput;
  readonly #request: ModelRequest;
  readonly #signal: AbortSignal;
  /** By the name of the function. */
  readonly #offered = new Map<string, OfferedTool>();
  readonly #output: JsonObject[] = [];
  /** What the model gets after the input. */
  readonly #turns: JsonObject[] = [];
  #usage: JsonObject | null = null;
  /** The members of the last answer of the model that the response states. */
  #facts: JsonObject = {};
  #toolCalls = 0;
  /** The items as they were recorded with the last call of a tool. */
  readonly #recorded: JsonObject[] = [];
  /** Whether something has happened that a client must get to know: from then on failures end the response. */
  isCommitted = false;

  constructor(options: ToolLoopOptions, given: ToolLoopInput, request: ModelRequest, signal: AbortSignal) {
    this.#options = options;
    this.#given = given;
    this.#request = request;
    this.#signal = signal;
  }

  /**
   * The events of the response, without sequence numbers.
   * @throws Refusal before anything is committed; LogUnavailable
   */
  async *events(): AsyncGenerator<JsonObject, void> {
    const { shell, servers, made } = this.#given;
    const approved = await claimApprovals(this.#given, this.#options);
    this.#usage = addUsage(null, made?.usage);
    yield { type: 'response.created', response: shell };
    yield { type: 'response.in_progress', response: shell };
    try {
      for (const server of servers) yield* this.#list(server);
      if (yield* this.#continue()) return yield this.#completed();
      this.#checkNames();
      for (const call of approved) yield* this.#makeApproved(call);
      yield* this.#answer();
    } catch (error) {
      if (!this.isCommitted || this.#signal.aborted) throw error;
      yield* this.#fail(refusalOf(error));
    }
  }

  /** @throws Refusal for a function of the client that a call could not be told from */
  #checkNames(): void {
    const { tools } = this.#given.json;
    for (const tool of Array.isArray(tools) ? tools.filter(isObject) : []) {
      for (const name of ownNames(tool)) {
        const offered = this.#offered.get(name);
        if (offered === undefined) continue;
        const why = `the MCP server '${offered.server.label}' has a tool with this name`;
        throw refusals.invalidRequest(`The function '${name}' needs another name: ${why}.`, 'tools');
      }
    }
  }

  /** @throws Refusal for a tool that a call could not be told from another */
  #offer(server: ToolServer, tool: GatewayTool): void {
    const name = functionName(server.label, tool.name);
    const other = this.#offered.get(name);
    if (other !== undefined && (other.server !== server || other.tool.name !== tool.name)) {
      const both = [other, { server, tool }].map((one) => `'${one.tool.name}' of '${one.server.label}'`).join(' and ');
      const message = `The tools ${both} are both the function '${name}': restrict 'allowed_tools', or use another label.`;
      throw refusals.invalidRequest(message, 'tools');
    }
    this.#offered.set(name, { server, tool });
  }

  async *#answer(): AsyncGenerator<JsonObject, void> {
    for (let isLimited = false; ; ) {
      const left = this.#outputTokensLeft();
      if (left !== undefined && left < LEAST_OUTPUT_TOKENS) return yield this.#incomplete('max_output_tokens');
      const { end, calls, waitsForClient } = yield* this.#turn(left, isLimited);
      if (end['status'] !== 'completed') {
        for (const call of calls) yield this.#done(call, { status: 'incomplete', output: null, error: null });
        return yield this.#endAs(end);
      }
      const wasLimited = isLimited;
      for (const call of calls) yield* this.#make(call);
      isLimited = this.#toolCalls >= this.#mostToolCalls;
      if (calls.length === 0 || waitsForClient) return yield this.#completed();
      if (wasLimited) return yield this.#incomplete('max_tool_calls');
    }
  }

  // A response that the gateway continues after a restart.

  /**
   * The output so far. A call that had begun is reported as failed, unless its tool states that it is idempotent.
   * @returns whether the client has to answer
   */
  async *#continue(): AsyncGenerator<JsonObject, boolean> {
    const items = (this.#given.made?.items ?? []).filter(({ type }) => type !== 'mcp_list_tools');
    let waitsForClient = false;
    for (const item of items) {
      this.isCommitted = true;
      const index = this.#output.length;
      this.#output.push(item);
      yield { type: 'response.output_item.added', output_index: index, item };
      const { type, status, id, server_label: label, name } = item;
      if (type !== 'mcp_call') {
        if (typeof type === 'string' && CLIENT_CALLS.has(type)) waitsForClient = true;
        if (type !== 'mcp_approval_request') this.#turns.push(withoutId(item));
        yield { type: 'response.output_item.done', output_index: index, item };
        continue;
      }
      const offered = this.#offered.get(functionName(String(label), String(name)));
      const isRepeated = status === 'in_progress' || offered?.tool.annotations?.['idempotentHint'] === true;
      if (offered !== undefined && isRepeated && (status === 'calling' || status === 'in_progress')) {
        const [call] = functionPair(item, '');
        if (call !== undefined) this.#turns.push(call);
        yield* this.#make({
          index,
          item: { ...item, status: 'in_progress' },
          callId: String(id),
          offered,
          needsApproval: false,
        });
        continue;
      }
      const ended = status === 'calling' || status === 'in_progress' ? interruptedCall(item) : item;
      this.#toolCalls += 1;
      this.#turns.push(...functionPair(ended, filled(ended['output']) ?? filled(ended['error']) ?? ''));
      if (ended !== item) yield { type: 'response.mcp_call.failed', output_index: index, item_id: id };
      yield this.#done({ index, item: ended }, {});
    }
    return waitsForClient;
  }

  async *#makeApproved(approved: ApprovedCall): AsyncGenerator<JsonObject, void> {
    const { requestId, label, name, arguments: args } = approved;
    this.isCommitted = true;
    const index = this.#output.length;
    const begun = this.#callItem(label, name, index);
    const item: JsonObject = { ...begun, arguments: args, approval_request_id: requestId };
    this.#output.push(item);
    const offered = this.#offered.get(functionName(label, name));
    yield { type: 'response.output_item.added', output_index: index, item };
    const id = { id: requestId, server_label: label, name, arguments: args };
    const [call] = functionPair(id, '');
    if (call !== undefined) this.#turns.push(call);
    if (offered === undefined) {
      const error = `The MCP server '${label}' has no tool '${name}' that this request allows.`;
      this.#turns.push({ type: 'function_call_output', call_id: requestId, output: error });
      yield { type: 'response.mcp_call.failed', output_index: index, item_id: item['id'] };
      yield this.#done({ index, item }, { status: 'failed', output: null, error });
    } else yield* this.#make({ index, item, callId: requestId, offered, needsApproval: false });
  }

  // Lists of tools.

  async *#list(server: ToolServer): AsyncGenerator<JsonObject, void> {
    const { items } = this.#given;
    const { label, slug } = server;
    const isKnown = items.some(
      (item) => isObject(item) && item.type === 'mcp_list_tools' && item.server_label === label && !filled(item.error),
    );
    const index = this.#output.length;
    const begun = {
      id: this.#itemId('mcpl', index),
      type: 'mcp_list_tools',
      server_label: label,
      tools: [],
      error: null,
    };
    const place = { output_index: index, item_id: begun.id };
    if (!isKnown) {
      yield { type: 'response.output_item.added', output_index: index, item: begun };
      yield { type: 'response.mcp_list_tools.in_progress', ...place };
    }
    let tools: readonly GatewayTool[] = [];
    let error: string | null = null;
    try {
      tools = (await this.#options.tools.list(slug, this.#request.caller)).filter((tool) => server.allows(tool));
    } catch (failed) {
      if (failed instanceof LogUnavailable || this.#signal.aborted) throw failed;
      error = messageOf(failed);
    }
    for (const tool of tools) this.#offer(server, tool);
    if (isKnown && error === null) return;
    const item = { ...begun, tools: tools.map(listed), error };
    if (isKnown) yield { type: 'response.output_item.added', output_index: index, item: begun };
    this.#output.push(item);
    yield { type: `response.mcp_list_tools.${error === null ? 'completed' : 'failed'}`, ...place };
    yield { type: 'response.output_item.done', output_index: index, item };
  }

  // Calls of tools.

  /** Calls the tool, or tells the model why it is not called. */
  async *#make(call: MadeCall): AsyncGenerator<JsonObject, void> {
    const { index, item, offered, callId } = call;
    const { server, tool } = offered;
    const place = { output_index: index, item_id: String(item['id']) };
    const args = parsedObject(filled(item['arguments']) ?? '{}');
    if (args === undefined) {
      return yield* this.#failedEvents(call, 'The call was not made: its arguments are no JSON object.');
    }
    if (this.#toolCalls >= this.#mostToolCalls) {
      const error = `The call was not made: a response has at most ${this.#mostToolCalls} calls of tools.`;
      return yield* this.#failedEvents(call, error);
    }
    this.#toolCalls += 1;
    await this.#recordCall(index, { ...item, status: 'calling' }, undefined);
    yield { type: 'response.mcp_call.in_progress', ...place };
    const { body: _body, bodyPieces: _pieces, ...request } = this.#request;
    try {
      const result = await this.#options.tools.call({
        slug: server.slug,
        tool: tool.name,
        arguments: args,
        itemId: place.item_id,
        request: { ...request, causationId: this.#given.record.id },
        signal: this.#signal,
      });
      const text = resultText(result);
      if (result.isError === true) return yield* await this.#failed(call, text === '' ? 'The tool failed.' : text);
      const done = { status: 'completed', output: text, error: null };
      await this.#recordCall(index, { ...item, ...done }, false);
      this.#turns.push({ type: 'function_call_output', call_id: callId, output: outputForModel(result) });
      yield { type: 'response.mcp_call.completed', ...place };
      yield this.#done(call, done);
    } catch (error) {
      if (error instanceof LogUnavailable || this.#signal.aborted) throw error;
      yield* await this.#failed(call, messageOf(error));
    }
  }

  /** The end of a call that was made, or could not be, as events. */
  async #failed(call: MadeCall, error: string): Promise<readonly JsonObject[]> {
    const failed = { status: 'failed', output: null, error };
    await this.#recordCall(call.index, { ...call.item, ...failed }, true);
    return this.#failedEvents(call, error);
  }

  #failedEvents(call: MadeCall, error: string): readonly JsonObject[] {
    const { index, item, callId } = call;
    this.#turns.push({ type: 'function_call_output', call_id: callId, output: error });
    return [
      { type: 'response.mcp_call.failed', output_index: index, item_id: item['id'] },
      this.#done(call, { status: 'failed', output: null, error }),
    ];
  }

  /** @param item as it is in the output from now on. @param failed undefined: the call is about to begin */
  #recordCall(index: number, item: JsonObject, failed: boolean | undefined): Promise<unknown> {
    const { record, recordsItems } = this.#given;
    const { id, server_label, name } = item;
    this.#output[index] = item;
    const facts = { itemId: String(id), serverLabel: String(server_label), tool: String(name) };
    const body = recordsItems ? this.#outputSince() : undefined;
    record.note(
      failed === undefined
        ? toolCallBegun.create(facts, record.context, body)
        : toolCallEnded.create({ ...facts, failed }, record.context, body),
    );
    return record.flush('written');
  }

  /** The items that are new or changed since the last call. */
  #outputSince(): Buffer {
    const items = [...this.#output.entries()].filter(([index, item]) => this.#recorded[index] !== item);
    for (const [index, item] of items) this.#recorded[index] = item;
    return Buffer.from(JSON.stringify({ items, usage: this.#usage }));
  }

  #done({ index, item }: Pick<MadeCall, 'index' | 'item'>, result: JsonObject): JsonObject {
    const whole = { ...item, ...result };
    this.#output[index] = whole;
    return { type: 'response.output_item.done', output_index: index, item: whole };
  }

  get #mostToolCalls(): number {
    const given = this.#given.json['max_tool_calls'];
    return typeof given === 'number' && given >= 0 ? Math.min(given, MAX_TOOL_CALLS) : MAX_TOOL_CALLS;
  }

  // Turns of the model.

  async *#turn(maxOutputTokens: number | undefined, isLimited: boolean): AsyncGenerator<JsonObject, Turn> {
    const calls = new Map<unknown, MadeCall>();
    const places = new Map<unknown, number>();
    const made: MadeCall[] = [];
    let waitsForClient = false;
    const { callModel } = this.#options;
    const { target } = this.#given;
    const turn = { offered: this.#offered, turns: this.#turns, maxOutputTokens, isLimited };
    const request = modelRequest(this.#given, turn, this.#request);
    const events: ModelEvents = modelEvents((client) => callModel(request, client, target), this.#signal);
    for await (const event of events) {
      this.isCommitted = true;
      const { type, item, output_index: theirs, response } = event;
      if (isObject(response)) {
        this.#note(response);
        if (TERMINAL.has(type)) return { end: response, calls: made, waitsForClient };
        continue;
      }
      if (isObject(item)) {
        const isDone = type === 'response.output_item.done';
        if (isDone) this.#turns.push(withoutId(item));
        const offered = item.type === 'function_call' ? this.#offered.get(String(item.name)) : undefined;
        if (offered === undefined) {
          const index = places.get(theirs) ?? this.#output.length;
          places.set(theirs, index);
          const ours = this.#renamed(item, index);
          this.#output[index] = ours;
          if (isDone && typeof item.type === 'string' && CLIENT_CALLS.has(item.type)) waitsForClient = true;
          yield { ...event, output_index: index, item: ours };
          continue;
        }
        let call = calls.get(theirs);
        if (call === undefined) {
          call = this.#begin(offered, String(item.call_id));
          calls.set(theirs, call);
          if (!call.needsApproval) yield added(call);
        }
        if (!isDone) continue;
        call.item = { ...call.item, arguments: filled(item.arguments) ?? '{}' };
        if (call.needsApproval) {
          waitsForClient = true;
          const { type: kind, server_label, name, arguments: args } = call.item;
          const asked = { tool: String(name), arguments: String(args) };
          const id = this.#requestId(String(call.item['id']), { ...asked, slug: offered.server.slug });
          call.item = { id, type: kind, server_label, name, arguments: args };
          yield added(call);
          yield this.#done(call, {});
          // The model gets the call when the client has answered.
          this.#turns.pop();
        } else {
          this.#output[call.index] = call.item;
          made.push(call);
        }
        continue;
      }
      const call = calls.get(theirs);
      const index = call?.index ?? places.get(theirs);
      if (index === undefined) continue;
      const place = { output_index: index, item_id: this.#output[index]?.['id'] };
      if (call === undefined) yield { ...event, ...place };
      else if (!call.needsApproval) yield* argumentEvents(event, place);
    }
    throw refusals.badAnswer(target.provider.name, `The provider '${target.provider.name}' ended its stream early.`);
  }

  #begin(offered: OfferedTool, callId: string): MadeCall {
    const { server, tool } = offered;
    const index = this.#output.length;
    const needsApproval = server.needsApproval(tool);
    const item = needsApproval
      ? {
          id: this.#itemId('mcpr', index),
          type: 'mcp_approval_request',
          server_label: server.label,
          name: tool.name,
          arguments: '',
        }
      : this.#callItem(server.label, tool.name, index);
    this.#output.push(item);
    return { index, offered, item, callId, needsApproval };
  }

  #requestId(id: string, asked: Omit<AskedCall, 'owner'>): string {
    const owner = approverOf(this.#given.record);
    return signedRequestId(id, { ...asked, owner }, this.#options.sealers);
  }

  #callItem(server_label: string, name: string, index: number): JsonObject {
    const id = this.#itemId('mcp', index);
    const nothingYet = { status: 'in_progress', approval_request_id: null, output: null, error: null };
    return { id, type: 'mcp_call', server_label, name, arguments: '', ...nothingYet };
  }

  #itemId(kind: string, index: number): string {
    return `${kind}_${this.#given.record.id.replaceAll('-', '')}_${index}`;
  }

  /** An id that contains the id of the model's own response is replaced: only this response is stored. */
  #renamed(item: JsonObject, index: number): JsonObject {
    const { encrypted_content: encrypted, ...members } = item;
    const shown = encrypted === undefined || this.#wantsEncrypted ? item : members;
    const id = filled(item['id']);
    if (id === undefined || responseOfItem(id) === undefined) return shown;
    return { ...shown, id: this.#itemId(id.slice(0, id.indexOf('_')), index) };
  }

  get #wantsEncrypted(): boolean {
    const { include } = this.#given.json;
    return Array.isArray(include) && include.includes(ENCRYPTED);
  }

  #outputTokensLeft(): number | undefined {
    const most = this.#given.json['max_output_tokens'];
    const used = this.#usage?.['output_tokens'];
    if (typeof most !== 'number') return undefined;
    return typeof used === 'number' ? most - used : most;
  }

  // The response object.

  #note(response: JsonObject): void {
    const { model, service_tier, usage, status } = response;
    this.#facts = { model, service_tier };
    if (status !== 'in_progress' && status !== 'queued') this.#usage = addUsage(this.#usage, usage);
  }

  #response(members: JsonObject): JsonObject {
    return { ...this.#given.shell, ...defined(this.#facts), output: this.#output, usage: this.#usage, ...members };
  }

  #completed(): JsonObject {
    const response = this.#response({ status: 'completed', completed_at: this.#given.now() });
    return { type: 'response.completed', response };
  }

  #incomplete(reason: string): JsonObject {
    return this.#endAs({ status: 'incomplete', incomplete_details: { reason } });
  }

  /** The response ends as the last turn of the model: incomplete or failed. */
  #endAs({ status, error = null, incomplete_details = null }: JsonObject): JsonObject {
    const type = status === 'incomplete' ? 'response.incomplete' : 'response.failed';
    return { type, response: this.#response({ status, error, incomplete_details }) };
  }

  *#fail(refusal: Refusal): Generator<JsonObject, void> {
    const { type, param, provider } = refusal;
    const { code, message } = failureForClients(refusal);
    const error = { type, code, message, param, ...(provider === undefined ? {} : { provider }) };
    yield { type: 'error', code, message, param, error };
    yield this.#endAs({ status: 'failed', error: { type, code, message } });
  }
}

const TERMINAL: ReadonlySet<unknown> = new Set(['response.completed', 'response.incomplete', 'response.failed']);
/** Calls that only the client can answer. */
const CLIENT_CALLS: ReadonlySet<string> = new Set([
  ...['function_call', 'custom_tool_call', 'computer_call', 'local_shell_call', 'shell_call', 'apply_patch_call'],
  'mcp_approval_request',
]);

function added({ index, item }: MadeCall): JsonObject {
  const { type } = item;
  const begun = type === 'mcp_approval_request' ? item : { ...item, arguments: '' };
  return { type: 'response.output_item.added', output_index: index, item: begun };
}

function* argumentEvents(event: JsonObject, place: JsonObject): Generator<JsonObject, void> {
  const { type, delta, arguments: args } = event;
  if (type === 'response.function_call_arguments.delta') {
    yield { type: 'response.mcp_call_arguments.delta', ...place, delta };
  } else if (type === 'response.function_call_arguments.done') {
    yield { type: 'response.mcp_call_arguments.done', ...place, arguments: args };
  }
}

/** The ids of the model's items are not looked up again. */
function withoutId({ id: _id, status: _status, ...item }: JsonObject): JsonObject {
  return item;
}

function listed({ name, description, inputSchema, annotations }: GatewayTool): JsonObject {
  return { name, description: description ?? null, input_schema: inputSchema, annotations: annotations ?? null };
}

function defined(members: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return error instanceof LogUnavailable ? refusals.logUnavailable(error) : refusals.internal(error);
}
