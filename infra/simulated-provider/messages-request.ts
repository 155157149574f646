/** Anthropic's Messages API: a request, checked as strictly as by Anthropic and converted to the common form. */
import type { Ask, Tool, ToolChoice } from './ask.ts';
import { type Rendering, settingsOf } from './chat.ts';
import { isObject, type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';

const KNOWN = new Set(
  (
    'model messages max_tokens system stop_sequences stream temperature top_p top_k thinking tools tool_choice metadata ' +
    'service_tier container mcp_servers context_management output_config output_format cache_control inference_geo ' +
    'speed betas thread simulate'
  ).split(' '),
);

/** The start of the assistant's message that the client has given (prefill), and the rest of the request. */
export interface MessagesAsk {
  readonly ask: Ask;
  readonly prefill: string;
}

export function askOfMessages(body: JsonObject, rendering: Rendering): MessagesAsk {
  const messages = messagesOf(body);
  checkTools(messages);
  const turns = [...systemTurns(body.system), ...messages.flatMap(turnsOf)];
  const last = messages.at(-1);
  const prefill = last?.role === 'assistant' ? (turns.pop()?.text ?? '') : '';
  const choice = objectIn(body.tool_choice);
  const ask: Ask = {
    ...settingsOf(body, rendering),
    turns,
    tools: listIn(body.tools).map(toolOf),
    toolChoice: choiceOf(choice),
    parallelToolCalls: choice.disable_parallel_tool_use !== true,
    maxTokens: numberIn(body.max_tokens),
    stop: listIn(body.stop_sequences).filter((each) => typeof each === 'string'),
    format: formatOf(body),
    reasoning: thinks(body),
  };
  return { ask, prefill };
}

/** Checks that apply to messages but not to the counting of tokens. */
export function checkSettings(body: JsonObject): void {
  const wrong = (message: string) => new Refused(400, message);
  for (const name of Object.keys(body)) {
    if (!KNOWN.has(name)) throw wrong(`${name}: Extra inputs are not permitted`);
  }
  // No state is kept between two requests: clients send the whole conversation.
  if (body.thread !== undefined && body.thread !== null)
    throw new Refused(400, 'thread: this request cannot be threaded', { code: 'thread_unsupported_request' });
  const { max_tokens, temperature, top_p, top_k } = body;
  if (max_tokens === undefined) throw wrong('max_tokens: Field required');
  if (!Number.isInteger(max_tokens) || (numberIn(max_tokens) ?? 0) < 1)
    throw wrong('max_tokens: Input should be a valid integer, greater than or equal to 1');
  checkRange('temperature', temperature, 1);
  checkRange('top_p', top_p, 1);
  checkRange('top_k', top_k, Number.POSITIVE_INFINITY);
  if (body.stop_sequences !== undefined && !Array.isArray(body.stop_sequences))
    throw wrong('stop_sequences: Input should be a valid list');
  for (const stop of listIn(body.stop_sequences)) {
    if (typeof stop !== 'string' || stop.trim() === '')
      throw wrong('stop_sequences: each stop sequence must contain non-whitespace');
  }
  if (body.tool_choice !== undefined && listIn(body.tools).length === 0)
    throw wrong('tool_choice: may only be specified while providing tools');
  checkThinking(body);
}

function checkRange(name: string, value: Json | undefined, most: number): void {
  if (value === undefined) return;
  const number = numberIn(value);
  if (number === undefined) throw new Refused(400, `${name}: Input should be a valid number`);
  if (number < 0 || number > most) throw new Refused(400, `${name}: range: 0..${most}`);
}

function checkThinking(body: JsonObject): void {
  if (body.thinking === undefined) return;
  const { type, budget_tokens } = objectIn(body.thinking);
  if (type !== 'enabled' && type !== 'adaptive' && type !== 'disabled')
    throw new Refused(400, "thinking: Input tag should be one of: 'adaptive', 'disabled', 'enabled'");
  if (type === 'disabled') return;
  if (type === 'enabled') {
    const budget = numberIn(budget_tokens);
    if (budget === undefined) throw new Refused(400, 'thinking.enabled.budget_tokens: Field required');
    if (budget < 1024)
      throw new Refused(400, 'thinking.enabled.budget_tokens: Input should be greater than or equal to 1024');
    if (budget >= (numberIn(body.max_tokens) ?? Number.POSITIVE_INFINITY))
      throw new Refused(400, '`max_tokens` must be greater than `thinking.budget_tokens`');
  }
  if (body.temperature !== undefined && body.temperature !== 1)
    throw new Refused(400, '`temperature` may only be set to 1 when thinking is enabled');
  const { type: choice } = objectIn(body.tool_choice);
  if (choice === 'any' || choice === 'tool')
    throw new Refused(400, 'Thinking may not be enabled when tool_choice forces tool use.');
}

function thinks(body: JsonObject): boolean {
  const { type } = objectIn(body.thinking);
  return type === 'enabled' || type === 'adaptive';
}

interface Message {
  readonly role: 'user' | 'assistant';
  readonly blocks: readonly JsonObject[];
}

/** Consecutive turns of the same role are merged, as Anthropic does. */
function messagesOf(body: JsonObject): Message[] {
  if (body.model === undefined) throw new Refused(400, 'model: Field required');
  if (body.messages === undefined) throw new Refused(400, 'messages: Field required');
  if (!Array.isArray(body.messages)) throw new Refused(400, 'messages: Input should be a valid list');
  if (body.messages.length === 0) throw new Refused(400, 'messages: at least one message is required');
  const messages: Message[] = [];
  for (const [i, each] of body.messages.entries()) {
    const { role, content } = objectIn(each);
    if (role !== 'user' && role !== 'assistant')
      throw new Refused(400, `messages.${i}.role: Input should be 'user' or 'assistant'`);
    const blocks = blocksOf(content, `messages.${i}.content`);
    const before = messages.at(-1);
    if (before?.role === role) messages.splice(-1, 1, { role, blocks: [...before.blocks, ...blocks] });
    else messages.push({ role, blocks });
  }
  return messages;
}

const BLOCKS = new Set(
  'text image document search_result thinking redacted_thinking tool_use tool_result server_tool_use'.split(' '),
);

function blocksOf(content: Json | undefined, place: string): JsonObject[] {
  if (content === undefined) throw new Refused(400, `${place}: Field required`);
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) throw new Refused(400, `${place}: Input should be a valid string or list`);
  return content.map((each, i) => {
    const block = isObject(each) ? each : {};
    const type = textIn(block.type) ?? '';
    if (!BLOCKS.has(type) && !type.endsWith('_tool_result'))
      throw new Refused(
        400,
        `${place}.${i}: Input tag '${type}' found using 'type' does not match any of the expected tags`,
      );
    if (type === 'text' && (textIn(block.text) ?? '') === '')
      throw new Refused(400, 'messages: text content blocks must be non-empty');
    if (type === 'thinking' && (textIn(block.signature) ?? '') === '')
      throw new Refused(400, `${place}.${i}.thinking.signature: Field required`);
    if (type === 'image') checkImage(objectIn(block.source), `${place}.${i}.image.source`);
    if (type === 'tool_use' && !isObject(block.input))
      throw new Refused(400, `${place}.${i}.tool_use.input: Input should be a valid dictionary`);
    return block;
  });
}

function checkImage(source: JsonObject, place: string): void {
  const { type } = source;
  if (type !== 'base64' && type !== 'url' && type !== 'file')
    throw new Refused(400, `${place}: Input tag should be one of: 'base64', 'file', 'url'`);
  const needed = { base64: ['media_type', 'data'], url: ['url'], file: ['file_id'] }[type];
  for (const name of needed) {
    if (textIn(source[name]) === undefined) throw new Refused(400, `${place}.${type}.${name}: Field required`);
  }
}

/** Checks that every call has its result in the next message, and every result its call. */
function checkTools(messages: readonly Message[]): void {
  for (const [i, { blocks }] of messages.entries()) {
    const calls = idsOf(blocks, 'tool_use', 'id');
    const next = messages[i + 1];
    const missing = next === undefined ? [] : calls.filter((id) => !resultsOf(next).includes(id));
    if (missing.length > 0 || (next === undefined && calls.length > 0)) {
      const ids = (missing.length > 0 ? missing : calls).join(', ');
      throw new Refused(
        400,
        `messages.${i}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${ids}`,
      );
    }
    const requested = idsOf(messages[i - 1]?.blocks ?? [], 'tool_use', 'id');
    const stray = idsOf(blocks, 'tool_result', 'tool_use_id').find((id) => !requested.includes(id));
    if (stray !== undefined)
      throw new Refused(400, `messages.${i}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${stray}`);
  }
}

function resultsOf({ blocks }: Message): string[] {
  return idsOf(blocks, 'tool_result', 'tool_use_id');
}

function idsOf(blocks: readonly JsonObject[], type: string, member: string): string[] {
  return blocks.filter((block) => block.type === type).map((block) => textIn(block[member]) ?? '');
}

function systemTurns(system: Json | undefined): Turn[] {
  if (system === undefined) return [];
  if (typeof system !== 'string' && !Array.isArray(system))
    throw new Refused(400, 'system: Input should be a valid string or list');
  const text =
    typeof system === 'string'
      ? system
      : listIn(system)
          .map((block) => textIn(objectIn(block).text) ?? '')
          .join('\n');
  return text === '' ? [] : [{ role: 'system', text }];
}

/** Results come last, also when the message contains text: the model answers the results. */
function turnsOf({ role, blocks }: Message): Turn[] {
  if (role === 'assistant')
    return [
      {
        role,
        text: blocks
          .map(wordsOf)
          .filter((text) => text !== '')
          .join('\n'),
      },
    ];
  const results = blocks.filter((block) => block.type === 'tool_result');
  const words = blocks
    .filter((block) => block.type !== 'tool_result')
    .map(wordsOf)
    .filter((text) => text !== '')
    .join('\n');
  return [
    ...(words === '' && results.length > 0 ? [] : [{ role, text: words }]),
    ...results.map((block): Turn => ({ role: 'tool', text: resultText(block.content) })),
  ];
}

function wordsOf(block: JsonObject): string {
  if (block.type === 'tool_use') return JSON.stringify({ name: block.name, arguments: JSON.stringify(block.input) });
  return block.type === 'text' ? (textIn(block.text) ?? '') : '';
}

function resultText(content: Json | undefined): string {
  if (typeof content === 'string') return content;
  return listIn(content)
    .map((block) => textIn(objectIn(block).text) ?? '')
    .join('');
}

/** A tool without a schema of its own is one that Anthropic runs itself; it is never called here. */
function toolOf(tool: Json, i: number): Tool {
  const { type, name, input_schema } = objectIn(tool);
  if (typeof name !== 'string') throw new Refused(400, `tools.${i}.custom.name: Field required`);
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(name))
    throw new Refused(400, `tools.${i}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`);
  if ((type === undefined || type === 'custom') && objectIn(input_schema).type !== 'object')
    throw new Refused(400, `tools.${i}.custom.input_schema.type: Field required`);
  return { name, parameters: input_schema ?? { type: 'object' } };
}

function choiceOf({ type, name }: JsonObject): ToolChoice {
  if (type === 'tool') {
    if (typeof name !== 'string') throw new Refused(400, 'tool_choice.tool.name: Field required');
    return { name };
  }
  if (type === undefined || type === 'auto') return 'auto';
  if (type === 'any') return 'required';
  if (type === 'none') return 'none';
  throw new Refused(400, "tool_choice: Input tag should be one of: 'any', 'auto', 'none', 'tool'");
}

/** Structured output, under its present name and the one of its beta. */
function formatOf(body: JsonObject): Ask['format'] {
  const format = objectIn(objectIn(body.output_config).format ?? body.output_format);
  return format.type === 'json_schema' ? { type: 'schema', schema: format.schema ?? {} } : { type: 'text' };
}
