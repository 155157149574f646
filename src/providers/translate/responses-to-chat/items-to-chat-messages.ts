/**
 * Input items as chat messages.
 *
 * | Item | Becomes |
 * |---|---|
 * | message | message of the same role; `developer` becomes `system`; `phase` is left out |
 * | `function_call`, `custom_tool_call` | tool call of the assistant message before it, parallel ones together |
 * | `function_call_output`, `custom_tool_call_output` | `tool` message, directly after its call; its images and files follow in a user message after the last tool message, since a tool message holds text only |
 * | `reasoning` | its text is put on the assistant message that follows; trailing reasoning, and content that another provider encrypted, is dropped |
 * | `item_reference` | refused with 404: references are resolved before translation |
 * | the record of a hosted tool's work | dropped |
 * | anything else | refused |
 *
 * `extra_content` of an item is moved to the item's translation.
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse, refuseMissing } from '../json.ts';
import { type Content, chatParts, compact, joinedContent, textOf } from './content-parts.ts';
import { mergedExtra, type ReasoningStyle, readCarried } from './reasoning.ts';
import { chatToolName } from './tools.ts';

export interface ChatMessage {
  role: string;
  content: Content | null;
  tool_calls?: JsonObject[];
  tool_call_id?: string;
  [member: string]: unknown;
}

export interface ChatMessages {
  readonly ok: true;
  readonly messages: readonly ChatMessage[];
}

/** Members of a message item that belong to the gateway or the Responses API; others are kept. */
const itemMembers = new Set(['type', 'role', 'content', 'id', 'status', 'phase', 'extra_content']);

/** @throws nothing; an item that chat messages cannot express is refused, with the name of the member */
export function chatMessages(body: JsonObject, style: ReasoningStyle): ChatMessages | Refused {
  const draft = new Draft(style);
  const instructions = body['instructions'];
  if (typeof instructions === 'string') {
    if (instructions !== '') draft.push({ role: 'system', content: instructions });
  } else if (Array.isArray(instructions)) {
    const refused = draft.addItems(instructions, 'instructions');
    if (refused !== undefined) return refused;
  }
  const input = body['input'];
  if (typeof input === 'string') {
    draft.push({ role: 'user', content: input });
  } else if (Array.isArray(input)) {
    const refused = draft.addItems(input, 'input');
    if (refused !== undefined) return refused;
  }
  draft.endTurn();
  if (draft.openApproval !== undefined) return onlyNative(draft.openApproval, 'mcp_approval_response');
  if (draft.messages.length === 0)
    return refuse('invalid_value', 'input', "'input' holds nothing to send to the model.");
  return { ok: true, messages: outputsAfterCalls(draft.messages) };
}

/** The messages so far, with content that is still waiting for its place. */
class Draft {
  readonly messages: ChatMessage[] = [];
  readonly #style: ReasoningStyle;
  #reasoning = '';
  /** Data that a vendor requires back with the reasoning. */
  #extra: JsonObject | undefined;
  /** The same for tool calls, by call id, where a client has sent it back. */
  readonly #callExtras = new Map<string, JsonObject>();
  /** Place of the client's approval of a hosted tool call without a result so far. */
  #approval: string | undefined;
  /** Images and files that tools returned, waiting for the last tool message of the turn. */
  #media: JsonObject[] = [];

  constructor(style: ReasoningStyle) {
    this.#style = style;
  }

  addItems(items: readonly unknown[], path: string): Refused | undefined {
    for (const [index, item] of items.entries()) {
      const at = `${path}[${index}]`;
      if (!isObject(item)) return refuse('invalid_type', at, `${at} must be an object.`);
      const refused = this.#add(item, at);
      if (refused !== undefined) return refused;
    }
    return undefined;
  }

  push(message: ChatMessage): void {
    this.endTurn();
    this.messages.push(message);
  }

  get openApproval(): string | undefined {
    return this.#approval;
  }

  endTurn(): void {
    this.#dropReasoning();
    if (this.#media.length === 0) return;
    this.messages.push({ role: 'user', content: this.#media });
    this.#media = [];
  }

  #add(item: JsonObject, path: string): Refused | undefined {
    const type = isItemReference(item) ? 'item_reference' : (filled(item['type']) ?? 'message');
    switch (type) {
      case 'message':
        return this.#addMessage(item, path);
      case 'function_call':
        return this.#addCall(item, callArguments(item['arguments']), path);
      case 'custom_tool_call':
        return this.#addCall(item, JSON.stringify({ input: item['input'] ?? '' }), path);
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#addOutput(item, path);
      case 'reasoning':
        this.#addReasoning(item);
        return undefined;
      case 'item_reference':
        return refuse('item_not_found', `${path}.id`, `Item '${String(item['id'])}' was not found.`, 404);
      default:
        return this.#addHosted(item, type, path);
    }
  }

  #addHosted(item: JsonObject, type: string, path: string): Refused | undefined {
    const handling = hostedRecord(item, type);
    if (handling === 'refused') return onlyNative(`${path}.type`, type);
    if (handling === 'approval') this.#approval = `${path}.type`;
    else if (type === 'mcp_call') this.#approval = undefined;
    return undefined;
  }

  #addMessage(item: JsonObject, path: string): Refused | undefined {
    const given = item['content'];
    if (filled(item['role']) === undefined && (given === undefined || given === null))
      return refuseMissing(`${path}.role`);
    const role = filled(item['role']) ?? 'user';
    let content: Content = '';
    if (typeof given === 'string') {
      content = given;
    } else if (Array.isArray(given)) {
      const translated = chatParts(given, `${path}.content`);
      if (!translated.ok) return translated;
      content = compact(translated.parts, role);
    }
    const message: ChatMessage = { role: role === 'developer' ? 'system' : role, content };
    for (const member in item) {
      if (!itemMembers.has(member) && item[member] !== null) message[member] = item[member];
    }
    this.#addExtra(message, item['extra_content']);
    if (role !== 'assistant') {
      this.push(message);
      return undefined;
    }
    this.#approval = undefined;
    const last = this.#openAssistant();
    if (last?.tool_calls !== undefined) {
      last.content = joinedContent(last.content, content);
      this.#addExtra(last, item['extra_content']);
      this.#attachReasoning(last);
      return undefined;
    }
    this.#attachReasoning(message);
    this.push(message);
    return undefined;
  }

  #addCall(item: JsonObject, args: string, path: string): Refused | undefined {
    const name = filled(item['name']);
    if (name === undefined) return refuseMissing(`${path}.name`);
    const id = filled(item['call_id']);
    if (id === undefined) return refuseMissing(`${path}.call_id`);
    const call: Record<string, unknown> = {
      id,
      type: 'function',
      function: { name: chatToolName(name, filled(item['namespace'])), arguments: args },
    };
    const extra = isObject(item['extra_content']) ? item['extra_content'] : this.#callExtras.get(id);
    if (extra !== undefined && this.#style.extraContent !== 'omit') call['extra_content'] = extra;
    const last = this.#openAssistant();
    if (last !== undefined) {
      if (last.tool_calls === undefined) last.tool_calls = [];
      last.tool_calls.push(call);
      if (last.content === '') last.content = null;
      this.#attachReasoning(last);
      return undefined;
    }
    const message: ChatMessage = { role: 'assistant', content: null, tool_calls: [call] };
    this.#attachReasoning(message);
    this.push(message);
    return undefined;
  }

  #addOutput(item: JsonObject, path: string): Refused | undefined {
    const id = filled(item['call_id']);
    if (id === undefined) return refuseMissing(`${path}.call_id`);
    const output = item['output'];
    let content = '';
    if (typeof output === 'string') {
      content = output;
    } else if (Array.isArray(output)) {
      const translated = chatParts(output, `${path}.output`);
      if (!translated.ok) return translated;
      const media = translated.parts.filter((part) => part['type'] !== 'text');
      content = textOf(translated.parts).join('\n');
      if (media.length > 0) {
        if (content === '') content = 'The output follows in the next user message.';
        this.#media.push({ type: 'text', text: `Output of tool call ${id}:` }, ...media);
      }
    } else if (output !== null && output !== undefined) {
      content = JSON.stringify(output);
    }
    this.#dropReasoning();
    const message: ChatMessage = { role: 'tool', tool_call_id: id, content };
    this.#addExtra(message, item['extra_content']);
    this.messages.push(message);
    return undefined;
  }

  /** Uses the gateway's own carried form, which is complete; else the raw reasoning, else the summary. */
  #addReasoning(item: JsonObject): void {
    const carried = readCarried(item['encrypted_content']);
    const text = carried?.text;
    this.#reasoning += text === undefined || text === '' ? reasoningText(item) : text;
    const given = item['extra_content'];
    this.#extra = mergedExtra(this.#extra, isObject(given) ? given : carried?.extra);
    for (const [callId, extra] of carried?.calls ?? []) this.#callExtras.set(callId, extra);
  }

  #dropReasoning(): void {
    this.#reasoning = '';
    this.#extra = undefined;
  }

  /** The assistant message of the last item; undefined after any other message. */
  #openAssistant(): ChatMessage | undefined {
    const last = this.messages.at(-1);
    return last?.role === 'assistant' ? last : undefined;
  }

  #attachReasoning(message: ChatMessage): void {
    const member = this.#style.replay;
    if (this.#reasoning !== '' && member !== 'omit') {
      message[member] = `${filled(message[member]) ?? ''}${this.#reasoning}`;
    }
    this.#addExtra(message, this.#extra);
    this.#dropReasoning();
  }

  #addExtra(message: ChatMessage, extra: unknown): void {
    if (!isObject(extra) || this.#style.extraContent === 'omit') return;
    const before = message['extra_content'];
    message['extra_content'] = mergedExtra(isObject(before) ? before : undefined, extra);
  }
}

/** Arguments are JSON text; some clients send the object itself. */
function callArguments(given: unknown): string {
  return isObject(given) ? JSON.stringify(given) : (filled(given) ?? '{}');
}

/** The raw reasoning if present, else the summary; content that another provider encrypted is ignored. */
function reasoningText(item: JsonObject): string {
  for (const parts of [item['content'], item['summary']]) {
    if (!Array.isArray(parts)) continue;
    const text = parts.flatMap((part) => (isObject(part) ? [filled(part['text']) ?? ''] : [])).join('\n');
    if (text !== '') return text;
  }
  return '';
}

function onlyNative(path: string, type: string): Refused {
  return refuse(
    'unsupported_value',
    path,
    `Items of type '${type}' need a provider with a native Responses API; this model's provider has none.`,
  );
}

// The treatment of items that only a provider with a native Responses API supports. The record of completed work of a
// provider's own tool is dropped, since its result is in the assistant's text after it; any other item is refused,
// since leaving it out would change the model's input.

/** `approval`: the client permits a hosted tool call. It is a record once the call has a result, else a demand. */
type HostedHandling = 'dropped' | 'approval' | 'refused';

const records = new Set([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'mcp_call',
  'mcp_list_tools',
  'mcp_approval_request',
]);

const toolSearches = new Set(['tool_search_call', 'tool_search_output']);

function hostedRecord(item: JsonObject, type: string): HostedHandling {
  if (type === 'mcp_approval_response') return 'approval';
  // A provider's search finds tools that the request lists, and all of those are sent. A client's search adds tools.
  if (toolSearches.has(type)) return item['execution'] === 'client' ? 'refused' : 'dropped';
  return records.has(type) ? 'dropped' : 'refused';
}

/** The members of a chat message that determine its place. */
interface Placed {
  readonly role: string;
  readonly tool_calls?: readonly JsonObject[];
  readonly tool_call_id?: string;
}

/**
 * Chat messages with each tool message directly after the assistant message that called the tool, where chat providers
 * require it. The Responses API allows other items in between. Everything else keeps its order; returns the same list
 * when nothing is out of place. A tool message whose call is missing, or comes later, stays at its place.
 */
function outputsAfterCalls<Message extends Placed>(messages: readonly Message[]): readonly Message[] {
  if (isInPlace(messages)) return messages;
  /** The newest message with a call of this id: ids may be reused in a later turn. */
  const callers = new Map<unknown, Message[]>();
  const groups: Message[][] = [];
  for (const message of messages) {
    const caller = message.role === 'tool' ? callers.get(message.tool_call_id) : undefined;
    if (caller !== undefined) {
      caller.push(message);
      continue;
    }
    const group = [message];
    groups.push(group);
    for (const { id } of message.tool_calls ?? []) callers.set(id, group);
  }
  return groups.flat();
}

function isInPlace(messages: readonly Placed[]): boolean {
  let called: ReadonlySet<unknown> = new Set();
  for (const message of messages) {
    if (message.role !== 'tool') called = new Set(message.tool_calls?.map(({ id }) => id));
    else if (!called.has(message.tool_call_id)) return false;
  }
  return true;
}

/**
 * Whether an input item only references an earlier one: `{"type": "item_reference", "id": …}`. The type may be omitted;
 * an item with more members than an id is then not a reference ("Responses API: item reference").
 */
export function isItemReference(item: unknown): item is JsonObject & { readonly id: string } {
  if (!isObject(item) || typeof item['id'] !== 'string') return false;
  const type = filled(item['type']);
  if (type !== undefined) return type === 'item_reference';
  return Object.entries(item).every(([member, value]) => member === 'id' || value === null || value === '');
}

/** Whether an item consists of its id alone, so that a provider that keeps responses looks it up. */
export function isNamedOnly(item: unknown): item is JsonObject & { readonly id: string } {
  if (isItemReference(item)) return true;
  if (!isObject(item) || typeof item['id'] !== 'string') return false;
  const { type, result, encrypted_content: encrypted } = item;
  return (
    (type === 'image_generation_call' && filled(result) === undefined) ||
    (type === 'reasoning' && filled(encrypted) === undefined)
  );
}
