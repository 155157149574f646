/** Texts of chat completions: requests and whole answers. */
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange } from '../guarded-text.ts';
import { type BodyTexts, type JsonPath, TextCollector } from './body-texts.ts';
import type { GuardedBody } from './guarded-body.ts';
import { contentTexts, definitionTexts, identifierTexts, roleNamed } from './message-parts.ts';

export const chatRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    const { messages, prediction } = body;
    if (Array.isArray(messages)) {
      for (const [index, message] of messages.entries()) messageTexts(into, message, ['messages', index], index);
    }
    if (isObject(prediction)) {
      const origin = { role: 'assistant', kind: 'text', message: -1 } as const;
      contentTexts(into, prediction['content'], ['prediction', 'content'], origin);
    }
    for (const name of ['tools', 'functions', 'response_format']) definitionTexts(into, body[name], [name]);
    identifierTexts(into, body);
    return into;
  },
  withSystem(body, { mode, text }: SystemChange) {
    if (!isObject(body) || !Array.isArray(body['messages'])) return body;
    const others: unknown[] = mode === 'replace' ? body['messages'].filter(isNoSystem) : body['messages'];
    return { ...body, messages: [{ role: 'system', content: text }, ...others] };
  },
};

export const chatAnswerBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body) || !Array.isArray(body['choices'])) return into;
    for (const [index, choice] of body['choices'].entries()) {
      if (isObject(choice)) messageTexts(into, withRole(choice['message']), ['choices', index, 'message'], index);
    }
    return into;
  },
};

function isNoSystem(message: unknown): boolean {
  return !isObject(message) || roleNamed(message['role']) !== 'system';
}

/** An answer is the assistant's, also without a role. */
function withRole(message: unknown): unknown {
  return isObject(message) ? { ...message, role: 'assistant' } : message;
}

function messageTexts(into: TextCollector, message: unknown, path: JsonPath, number: number): void {
  if (!isObject(message)) return;
  const role = roleNamed(message['role']);
  const origin = { role, kind: role === 'tool' ? 'tool_result' : 'text', message: number } as const;
  contentTexts(into, message['content'], [...path, 'content'], origin);
  into.text(message['name'], [...path, 'name'], { ...origin, kind: 'identifier' });
  into.text(message['refusal'], [...path, 'refusal'], { ...origin, kind: 'refusal' });
  for (const name of ['reasoning_content', 'reasoning', 'reasoning_details', 'thinking']) {
    into.strings(message[name], [...path, name], { ...origin, kind: 'reasoning' });
  }
  const { audio } = message;
  if (isObject(audio)) into.text(audio['transcript'], [...path, 'audio', 'transcript'], origin);
  const callOrigin = { ...origin, kind: 'tool_arguments' } as const;
  if (isObject(message['function_call'])) {
    into.jsonText(message['function_call']['arguments'], [...path, 'function_call', 'arguments'], callOrigin);
  }
  const calls = message['tool_calls'];
  if (!Array.isArray(calls)) return;
  for (const [index, call] of calls.entries()) {
    if (!isObject(call)) continue;
    const at = [...path, 'tool_calls', index];
    if (isObject(call['function'])) {
      into.jsonText(call['function']['arguments'], [...at, 'function', 'arguments'], callOrigin);
    }
    if (isObject(call['custom'])) into.text(call['custom']['input'], [...at, 'custom', 'input'], callOrigin);
  }
}
