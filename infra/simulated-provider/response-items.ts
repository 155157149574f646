/** The text of the items of a conversation, and the output items of an answer. */
import { type Answer, logprobOf } from './answer.ts';
import { textOfContent } from './chat.ts';
import { isObject, type Json, type JsonObject, listIn, numberIn, objectIn, parseJson, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';

/** The input as a list of items, each with a type; a string is a user message, and a prompt template needs none. */
export function inputItemsOf(body: JsonObject): JsonObject[] {
  const { input, prompt } = body;
  if (typeof input === 'string') return [userMessage(input)];
  if ((input === undefined || input === null) && isObject(prompt)) return [];
  if (!Array.isArray(input)) throw new Refused(400, 'input must be a string or a list of items', { param: 'input' });
  return input.map((item) => {
    if (typeof item === 'string') return userMessage(item);
    if (!isObject(item)) throw new Refused(400, 'every input item must be an object', { param: 'input' });
    return item.type === undefined ? { type: 'message', ...item } : item;
  });
}

function userMessage(text: string): JsonObject {
  return { type: 'message', role: 'user', content: [{ type: 'input_text', text }] };
}

const ROLES: Readonly<Record<string, Turn['role']>> = {
  developer: 'system',
  system: 'system',
  assistant: 'assistant',
};

/** The turns of the items of a conversation; items without text (reasoning, unknown types) have none. */
export function turnsOf(items: readonly Json[]): Turn[] {
  return items.flatMap((each): Turn[] => {
    const item = objectIn(each);
    switch (item.type) {
      case 'message':
        return [{ role: ROLES[textIn(item.role) ?? ''] ?? 'user', text: textOfContent(item.content) }];
      case 'function_call':
        return [{ role: 'assistant', text: JSON.stringify({ name: item.name, arguments: item.arguments }) }];
      case 'custom_tool_call':
        return [{ role: 'assistant', text: JSON.stringify({ name: item.name, input: item.input }) }];
      case 'function_call_output':
      case 'custom_tool_call_output':
        return [{ role: 'tool', text: textIn(item.output) ?? textOfContent(item.output) }];
      case 'compaction':
        return unsealed(item.encrypted_content);
      default:
        return [];
    }
  });
}

/** Turns as an opaque text, which clients return unchanged. */
export function sealed(turns: readonly Turn[]): string {
  return Buffer.from(JSON.stringify(turns)).toString('base64');
}

function unsealed(content: Json | undefined): Turn[] {
  const turns = listIn(parseJson(Buffer.from(textIn(content) ?? '', 'base64').toString())).map(objectIn);
  return turns.map(({ role, text }): Turn => {
    const known = role === 'user' || role === 'tool' ? role : (ROLES[textIn(role) ?? ''] ?? 'user');
    return { role: known, text: textIn(text) ?? '' };
  });
}

/** Reasoning, hosted searches, then calls or a message. */
export function outputOf(body: JsonObject, given: Answer, newId: (prefix: string) => string): JsonObject[] {
  const output: JsonObject[] = [];
  if (given.reasoning.length > 0) {
    const text = given.reasoning.join('');
    const encrypted = listIn(body.include).includes('reasoning.encrypted_content')
      ? { encrypted_content: sealed([{ role: 'assistant', text }]) }
      : {};
    output.push({ id: newId('rs_'), type: 'reasoning', summary: [{ type: 'summary_text', text }], ...encrypted });
  }
  for (const { name, arguments: text, freeform } of given.calls) {
    const call = { status: 'completed', call_id: newId('call_'), name };
    output.push(
      freeform
        ? { id: newId('ctc_'), type: 'custom_tool_call', ...call, input: text }
        : { id: newId('fc_'), type: 'function_call', ...call, arguments: text },
    );
  }
  if (given.calls.length > 0) return output;
  if (/\bsearch\b/i.test(given.prompt) && listIn(body.tools).some(isWebSearch)) {
    const action = { type: 'search', query: given.text.slice(0, 40) };
    output.push({ id: newId('ws_'), type: 'web_search_call', status: 'completed', action });
  }
  const complete = given.finish === 'stop';
  const content = [given.refused ? { type: 'refusal', refusal: given.text } : textPart(body, given)];
  const status = complete ? 'completed' : 'incomplete';
  output.push({ id: newId('msg_'), type: 'message', status, role: 'assistant', content });
  return output;
}

function isWebSearch(tool: Json): boolean {
  return textIn(objectIn(tool).type)?.startsWith('web_search') === true;
}

function textPart(body: JsonObject, given: Answer): JsonObject {
  const annotations = given.citations.map((citation) => ({ type: 'url_citation', ...citation }));
  return { type: 'output_text', annotations, logprobs: logprobsOf(body, given.tokens), text: given.text };
}

export function logprobsOf(body: JsonObject, tokens: readonly string[]): JsonObject[] {
  if (!listIn(body.include).includes('message.output_text.logprobs') && !numberIn(body.top_logprobs)) return [];
  return tokens.map((token) => logprobOf(token, numberIn(body.top_logprobs) ?? 0));
}
