/** Texts of the Responses dialect: requests with their input items, and whole responses. */
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange, TextRole } from '../guarded-text.ts';
import { type BodyTexts, type JsonPath, TextCollector } from './body-texts.ts';
import type { GuardedBody } from './guarded-body.ts';
import { contentTexts, definitionTexts, identifierTexts, roleNamed } from './message-parts.ts';

export const responsesRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    const { input, prompt, text } = body;
    into.text(body['instructions'], ['instructions'], { role: 'system', kind: 'text', message: 0 });
    if (Array.isArray(input)) itemsTexts(into, input, ['input'], 'user');
    else into.text(input, ['input'], { role: 'user', kind: 'text', message: 1 });
    if (isObject(prompt)) {
      into.strings(prompt['variables'], ['prompt', 'variables'], { role: 'user', kind: 'text', message: -1 });
    }
    definitionTexts(into, body['tools'], ['tools']);
    if (isObject(text)) definitionTexts(into, text['format'], ['text', 'format']);
    identifierTexts(into, body);
    return into;
  },
  withSystem(body, { mode, text }: SystemChange) {
    if (!isObject(body)) return body;
    const { input, instructions } = body;
    if (mode === 'add') {
      const isSet = typeof instructions === 'string' && instructions !== '';
      return { ...body, instructions: isSet ? `${text}\n${instructions}` : text };
    }
    const others = Array.isArray(input) ? input.filter((item: unknown) => !isSystemItem(item)) : input;
    return { ...body, instructions: text, input: others };
  },
};

export const responsesAnswerBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (isObject(body) && Array.isArray(body['output'])) itemsTexts(into, body['output'], ['output'], 'assistant');
    return into;
  },
};

function isSystemItem(item: unknown): boolean {
  return isObject(item) && (item['type'] ?? 'message') === 'message' && roleNamed(item['role']) === 'system';
}

function itemsTexts(into: TextCollector, items: readonly unknown[], path: JsonPath, author: TextRole): void {
  for (const [index, item] of items.entries()) {
    if (isObject(item)) itemTexts(into, item, [...path, index], author, index + 1);
    else into.text(item, [...path, index], { role: author, kind: 'text', message: index + 1 });
  }
}

/** @param author of messages without a role */
function itemTexts(
  into: TextCollector,
  item: Readonly<Record<string, unknown>>,
  path: JsonPath,
  author: TextRole,
  message: number,
): void {
  const type = item['type'] ?? 'message';
  const from = (role: TextRole) => ({ role, message });
  if (type === '' || type === 'message') {
    const role = item['role'] === undefined ? author : roleNamed(item['role']);
    contentTexts(into, item['content'], [...path, 'content'], { ...from(role), kind: 'text' });
  } else if (type === 'function_call' || type === 'mcp_call') {
    into.jsonText(item['arguments'], [...path, 'arguments'], { ...from('assistant'), kind: 'tool_arguments' });
    into.strings(item['output'], [...path, 'output'], { ...from('tool'), kind: 'tool_result' });
    into.strings(item['error'], [...path, 'error'], { ...from('tool'), kind: 'tool_result' });
  } else if (type === 'custom_tool_call') {
    into.text(item['input'], [...path, 'input'], { ...from('assistant'), kind: 'tool_arguments' });
  } else if (typeof type === 'string' && type.endsWith('_output')) {
    contentTexts(into, item['output'], [...path, 'output'], { ...from('tool'), kind: 'tool_result' });
  } else if (type === 'reasoning') {
    into.strings(item['summary'], [...path, 'summary'], { ...from('assistant'), kind: 'reasoning' });
    into.strings(item['content'], [...path, 'content'], { ...from('assistant'), kind: 'reasoning' });
  } else if (type !== 'item_reference') {
    // Hosted tools and items of later versions: actions, queries, code, results.
    into.strings(item, path, { ...from('assistant'), kind: 'tool_arguments' });
  }
}
