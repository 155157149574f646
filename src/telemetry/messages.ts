/** Messages in the form of OpenTelemetry's semantic conventions, as JSON text, for any dialect. Pure. */
import { parseExactly } from '../json/exact-json.ts';
import { isObject } from '../json/is-object.ts';

/** @param body of the request. @returns undefined for one without messages */
export function inputMessages(body: Uint8Array | undefined): string | undefined {
  const request = body && parsed(Buffer.from(body.buffer, body.byteOffset, body.length).toString());
  if (!isObject(request)) return undefined;
  const system = request['system'] ?? request['instructions'];
  const given = request['messages'] ?? request['input'] ?? request['prompt'];
  const messages = (Array.isArray(given) ? given : [given]).filter((one) => one !== undefined);
  const all = [...(system === undefined ? [] : [{ role: 'system', content: system }]), ...messages];
  return all.length === 0 ? undefined : JSON.stringify(all.map((message) => messageOf(message, 'user')));
}

/** @param answer the text of a stream, or a parsed answer */
export function outputMessages(answer: unknown, finish: string | undefined): string | undefined {
  const messages = messagesIn(answer);
  if (messages.length === 0) return undefined;
  return JSON.stringify(
    messages.map((message) => ({ ...messageOf(message, 'assistant'), finish_reason: finish ?? '' })),
  );
}

function messagesIn(answer: unknown): readonly unknown[] {
  if (typeof answer === 'string') return [answer];
  if (!isObject(answer)) return [];
  const { choices, output, content } = answer;
  if (Array.isArray(choices))
    return choices.map((choice) => (isObject(choice) ? (choice['message'] ?? choice['text']) : choice));
  return Array.isArray(output) ? output : content === undefined ? [] : [{ content }];
}

function messageOf(message: unknown, role: string) {
  if (!isObject(message)) return { role, parts: partsOf(message) };
  const { content, tool_calls: calls = [] } = message;
  const parts = content === undefined || content === null ? [] : partsOf(content);
  const called = Array.isArray(calls) ? calls.map(callOf) : [];
  // An item of a response that is no message, such as the call of a function.
  const own = parts.length === 0 && called.length === 0 ? [message] : [];
  return { role: typeof message['role'] === 'string' ? message['role'] : role, parts: [...parts, ...called, ...own] };
}

function partsOf(content: unknown): readonly unknown[] {
  if (Array.isArray(content)) return content.flatMap(partsOf);
  if (!isObject(content))
    return [{ type: 'text', content: typeof content === 'string' ? content : JSON.stringify(content) }];
  return typeof content['text'] === 'string' ? [{ type: 'text', content: content['text'] }] : [content];
}

function callOf(call: unknown) {
  const { id, function: called } = isObject(call) ? call : {};
  const { name, arguments: given } = isObject(called) ? called : {};
  return { type: 'tool_call', id, name, arguments: given };
}

function parsed(text: string): unknown {
  try {
    return parseExactly(text);
  } catch {
    return undefined;
  }
}
