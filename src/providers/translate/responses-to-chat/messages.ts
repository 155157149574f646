/**
 * Input items as chat messages.
 *
 * | Item | Becomes |
 * |---|---|
 * | message | message of the same role; `developer` becomes `system` |
 * | `function_call`, `custom_tool_call` | tool call of the assistant message before it, parallel ones together |
 * | `function_call_output`, `custom_tool_call_output` | `tool` message; images and files of it follow in a user message after the last tool message, since a tool message holds text only |
 * | `reasoning` | its text rides on the assistant message that follows; encrypted or trailing reasoning is dropped |
 * | a record of a hosted tool (`web_search_call`, …) | dropped: its outcome is in the assistant text that follows |
 * | `item_reference` | refused with 404: references are resolved before translation |
 * | anything else (`computer_call`, `shell_call`, `compaction`, …) | refused: leaving it out would change the meaning |
 */
import { filled, isObject, type JsonObject } from '../json.ts';
import { type Refused, refuse } from '../refusal.ts';
import { chatParts, isPlainText } from './content-parts.ts';
import type { ReasoningStyle } from './reasoning-style.ts';
import { chatToolName } from './tool-names.ts';

export interface ChatMessage {
  role: string;
  content: string | readonly JsonObject[] | null;
  tool_calls?: JsonObject[];
  tool_call_id?: string;
  [member: string]: unknown;
}

export interface ChatMessages {
  readonly ok: true;
  readonly messages: readonly ChatMessage[];
}

const hostedRecords = new Set([
  'web_search_call',
  'file_search_call',
  'code_interpreter_call',
  'image_generation_call',
  'mcp_call',
  'mcp_list_tools',
  'mcp_approval_request',
  'mcp_approval_response',
  'tool_search_call',
  'tool_search_output',
]);

/** Members of a message item that are the gateway's or the Responses API's own; others are kept. */
const itemMembers = new Set(['type', 'role', 'content', 'id', 'status', 'phase']);

/** @throws nothing; what cannot be said in chat messages is refused, naming the member */
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
  if (draft.messages.length === 0)
    return refuse('invalid_value', 'input', "'input' holds nothing to send to the model.");
  return { ok: true, messages: draft.messages };
}

/** The messages so far, with what is still waiting for its place among them. */
class Draft {
  readonly messages: ChatMessage[] = [];
  readonly #style: ReasoningStyle;
  #reasoning = '';
  /** Images and files that tools returned, waiting until all tool messages of the turn are there. */
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

  endTurn(): void {
    this.#reasoning = '';
    if (this.#media.length === 0) return;
    this.messages.push({ role: 'user', content: this.#media });
    this.#media = [];
  }

  #add(item: JsonObject, path: string): Refused | undefined {
    const type = filled(item['type']) ?? 'message';
    switch (type) {
      case 'message':
        return this.#addMessage(item, path);
      case 'function_call':
        return this.#addCall(item, filled(item['arguments']) ?? '{}', path);
      case 'custom_tool_call':
        return this.#addCall(item, JSON.stringify({ input: item['input'] ?? '' }), path);
      case 'function_call_output':
      case 'custom_tool_call_output':
        return this.#addOutput(item, path);
      case 'reasoning':
        this.#reasoning += reasoningText(item);
        return undefined;
      case 'item_reference':
        return refuse('item_not_found', `${path}.id`, `Item '${String(item['id'])}' was not found.`, 404);
      default:
        if (hostedRecords.has(type)) return undefined;
        return refuse(
          'unsupported_value',
          `${path}.type`,
          `Items of type '${type}' need a provider with a native Responses API; this model's provider has none.`,
        );
    }
  }

  #addMessage(item: JsonObject, path: string): Refused | undefined {
    const role = filled(item['role']) ?? 'user';
    const given = item['content'];
    let content: string | readonly JsonObject[] = '';
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
    if (role !== 'assistant') {
      this.push(message);
      return undefined;
    }
    const last = this.#openAssistant();
    if (last?.tool_calls !== undefined) {
      last.content = joined(last.content, content);
      this.#attachReasoning(last);
      return undefined;
    }
    this.#attachReasoning(message);
    this.push(message);
    return undefined;
  }

  #addCall(item: JsonObject, args: string, path: string): Refused | undefined {
    const name = filled(item['name']);
    if (name === undefined) return missing(`${path}.name`);
    const id = filled(item['call_id']);
    if (id === undefined) return missing(`${path}.call_id`);
    const call: Record<string, unknown> = {
      id,
      type: 'function',
      function: { name: chatToolName(name, filled(item['namespace'])), arguments: args },
    };
    if (isObject(item['extra_content'])) call['extra_content'] = item['extra_content'];
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
    if (id === undefined) return missing(`${path}.call_id`);
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
    this.#reasoning = '';
    this.messages.push({ role: 'tool', tool_call_id: id, content });
    return undefined;
  }

  /** The assistant message that the last item belongs to; undefined once anything else has been said. */
  #openAssistant(): ChatMessage | undefined {
    const last = this.messages.at(-1);
    return last?.role === 'assistant' ? last : undefined;
  }

  #attachReasoning(message: ChatMessage): void {
    if (this.#reasoning === '') return;
    const member = this.#style.replay;
    if (member !== 'omit') message[member] = `${filled(message[member]) ?? ''}${this.#reasoning}`;
    this.#reasoning = '';
  }
}

/** A string where the parts say no more than one: many servers take nothing else from an assistant. */
function compact(parts: readonly JsonObject[], role: string): string | readonly JsonObject[] {
  if (parts.length === 0) return '';
  if (!parts.every(isPlainText)) return parts;
  if (parts.length === 1 || role === 'assistant') return textOf(parts).join('');
  return parts;
}

function textOf(parts: readonly JsonObject[]): string[] {
  return parts.flatMap((part) => (part['type'] === 'text' ? [filled(part['text']) ?? ''] : []));
}

function joined(before: ChatMessage['content'], after: string | readonly JsonObject[]): ChatMessage['content'] {
  if (before === null || before === '') return after === '' ? before : after;
  if (typeof before === 'string' && typeof after === 'string') return before + after;
  return [...asParts(before), ...asParts(after)];
}

function asParts(content: string | readonly JsonObject[]): readonly JsonObject[] {
  if (typeof content !== 'string') return content;
  return content === '' ? [] : [{ type: 'text', text: content }];
}

/** The raw reasoning when it is there, else the summary; nothing of what is encrypted. */
function reasoningText(item: JsonObject): string {
  for (const parts of [item['content'], item['summary']]) {
    if (!Array.isArray(parts)) continue;
    const text = parts.flatMap((part) => (isObject(part) ? [filled(part['text']) ?? ''] : [])).join('\n');
    if (text !== '') return text;
  }
  return '';
}

function missing(param: string): Refused {
  return refuse('missing_required_parameter', param, `Missing required parameter: '${param}'.`);
}
