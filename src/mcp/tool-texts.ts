/** The texts of a call of a tool and of its result that guardrails read. */
import type { GuardedBody, JsonPath, TextOrigin } from '../commands/guardrails/body/body-texts.ts';
import { TextCollector } from '../commands/guardrails/body/body-texts.ts';
import { isObject } from '../json/is-object.ts';

/** Of `{ name, arguments }`: names of arguments are texts, too. */
export const toolArguments: GuardedBody = {
  texts(body) {
    const into = new TextCollector();
    const origin: TextOrigin = { role: 'assistant', kind: 'tool_arguments', message: 0 };
    if (isObject(body)) into.jsonText(body['arguments'], ['arguments'], origin);
    return into;
  },
};

/** Images and sounds are not read; the names and descriptions beside them are. */
export const toolResult: GuardedBody = {
  texts(body) {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    const { content, structuredContent } = body;
    const origin: TextOrigin = { role: 'tool', kind: 'tool_result', message: 0 };
    if (Array.isArray(content)) {
      for (const [index, part] of content.entries()) contentTexts(into, part, ['content', index], origin);
    } else into.strings(content, ['content'], origin);
    if (isObject(structuredContent)) into.jsonText(structuredContent, ['structuredContent'], origin);
    return into;
  },
};

function contentTexts(into: TextCollector, part: unknown, path: JsonPath, origin: TextOrigin): void {
  const { type, text, resource } = isObject(part) ? part : {};
  if (!isObject(part)) into.text(part, path, origin);
  else if (type === 'image' || type === 'audio') into.unread(path);
  else if (typeof text === 'string') into.text(text, [...path, 'text'], origin);
  else if (isObject(resource)) {
    const at = [...path, 'resource'];
    if (typeof resource['text'] === 'string') into.text(resource['text'], [...at, 'text'], origin);
    else into.unread(at);
  } else into.strings(part, path, origin);
}
