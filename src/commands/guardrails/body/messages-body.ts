/** Texts of the Messages dialect: requests and whole answers. */
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange } from '../guarded-text.ts';
import { type BodyTexts, type JsonPath, TextCollector, type TextOrigin } from './body-texts.ts';
import type { GuardedBody } from './guarded-body.ts';
import { definitionTexts, identifierTexts, roleNamed } from './message-parts.ts';

export const messagesRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    blocksTexts(into, body['system'], ['system'], { role: 'system', kind: 'text', message: 0 });
    const { messages } = body;
    if (Array.isArray(messages)) {
      for (const [index, message] of messages.entries()) {
        if (!isObject(message)) continue;
        const origin = { role: roleNamed(message['role']), kind: 'text', message: index + 1 } as const;
        blocksTexts(into, message['content'], ['messages', index, 'content'], origin);
      }
    }
    definitionTexts(into, body['tools'], ['tools']);
    identifierTexts(into, body);
    return into;
  },
  withSystem(body, { mode, text }: SystemChange) {
    if (!isObject(body)) return body;
    const { system } = body;
    if (mode === 'add' && Array.isArray(system)) return { ...body, system: [{ type: 'text', text }, ...system] };
    const isSet = mode === 'add' && typeof system === 'string' && system !== '';
    return { ...body, system: isSet ? `${text}\n${system}` : text };
  },
};

export const messagesAnswerBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (isObject(body)) {
      blocksTexts(into, body['content'], ['content'], { role: 'assistant', kind: 'text', message: 0 });
    }
    return into;
  },
};

function blocksTexts(into: TextCollector, content: unknown, path: JsonPath, origin: TextOrigin): void {
  if (!Array.isArray(content)) {
    into.text(content, path, origin);
    return;
  }
  for (const [index, block] of content.entries()) {
    if (isObject(block)) blockTexts(into, block, [...path, index], origin);
  }
}

function blockTexts(
  into: TextCollector,
  block: Readonly<Record<string, unknown>>,
  path: JsonPath,
  origin: TextOrigin,
): void {
  const { type } = block;
  if (type === 'text') into.text(block['text'], [...path, 'text'], origin);
  else if (type === 'thinking') into.text(block['thinking'], [...path, 'thinking'], { ...origin, kind: 'reasoning' });
  else if (type === 'redacted_thinking') return;
  else if (type === 'tool_use' || type === 'server_tool_use' || type === 'mcp_tool_use') {
    into.jsonText(block['input'], [...path, 'input'], { ...origin, kind: 'tool_arguments' });
  } else if (type === 'tool_result' || type === 'mcp_tool_result') {
    blocksTexts(into, block['content'], [...path, 'content'], { ...origin, role: 'tool', kind: 'tool_result' });
  } else if (type === 'image') into.unread(path);
  else if (type === 'document') documentTexts(into, block, path, origin);
  else
    into.strings(
      block,
      path,
      typeof type === 'string' && type.endsWith('_result') ? { ...origin, kind: 'tool_result' } : origin,
    );
}

function documentTexts(
  into: TextCollector,
  document: Readonly<Record<string, unknown>>,
  path: JsonPath,
  origin: TextOrigin,
): void {
  into.text(document['title'], [...path, 'title'], origin);
  into.text(document['context'], [...path, 'context'], origin);
  const { source } = document;
  if (!isObject(source)) return;
  if (source['type'] === 'text') into.text(source['data'], [...path, 'source', 'data'], origin);
  else if (source['type'] === 'content') blocksTexts(into, source['content'], [...path, 'source', 'content'], origin);
  else into.unread(path);
}
