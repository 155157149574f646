/** The bodies that guardrails read, by dialect. */
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange, TextRole } from '../guardrail-type.ts';
import {
  type BodyTexts,
  everyTextOfAnswer,
  everyTextOfRequest,
  type GuardedBody,
  type JsonPath,
  TextCollector,
  type TextOrigin,
} from './body-texts.ts';

/** Contents and tools, which have similar shapes in several dialects. */
function roleNamed(role: unknown): TextRole {
  if (role === 'system' || role === 'developer') return 'system';
  if (role === 'assistant' || role === 'model') return 'assistant';
  return role === 'tool' || role === 'function' ? 'tool' : 'user';
}

/** Parts whose data are images, sounds or files. Names of files and texts around them are read. */
const media: ReadonlySet<unknown> = new Set([
  ...['image_url', 'input_image', 'image', 'input_audio', 'output_audio', 'video_url', 'input_video'],
]);

/** The content of a message of the chat or the Responses dialect: a string, or a list of parts. */
function contentTexts(into: TextCollector, content: unknown, path: JsonPath, origin: TextOrigin): void {
  if (!Array.isArray(content)) {
    into.strings(content, path, origin);
    return;
  }
  for (const [index, part] of content.entries()) {
    const at = [...path, index];
    if (!isObject(part)) into.text(part, at, origin);
    else if (media.has(part['type'])) {
      into.unread(at);
      into.text(part['transcript'], [...at, 'transcript'], origin);
    } else if (part['type'] === 'file' || part['type'] === 'input_file') {
      into.unread(at);
      into.text(part['filename'], [...at, 'filename'], origin);
    } else if (part['type'] === 'refusal') into.strings(part, at, { ...origin, kind: 'refusal' });
    else if (typeof part['text'] === 'string') into.text(part['text'], [...at, 'text'], origin);
    else into.strings(part, at, origin);
  }
}

const described = new Set(['description', 'title', 'default', 'examples']);

/** Descriptions in tools and schemas. */
function definitionTexts(into: TextCollector, value: unknown, path: JsonPath): void {
  const origin: TextOrigin = { role: 'system', kind: 'definition', message: -1 };
  if (Array.isArray(value)) {
    for (const [index, one] of value.entries()) definitionTexts(into, one, [...path, index]);
  } else if (isObject(value)) {
    for (const name in value) {
      const member = value[name];
      // A property of a schema may have the name of a keyword: then its value is a schema.
      if (described.has(name) && !isObject(member)) into.strings(member, [...path, name], origin);
      else definitionTexts(into, member, [...path, name]);
    }
  }
}

const identifying = ['user', 'safety_identifier', 'metadata'];

/** Members that name the end user, at the provider's side. */
function identifierTexts(into: TextCollector, body: Readonly<Record<string, unknown>>): void {
  const origin: TextOrigin = { role: 'user', kind: 'identifier', message: -1 };
  for (const name of identifying) {
    if (isObject(body[name])) into.strings(body[name], [name], origin, true);
    else into.text(body[name], [name], origin);
  }
}

/** Texts of chat completions: requests and whole answers. */
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

/** Texts of the Messages dialect: requests and whole answers. */
const messagesRequestBody: GuardedBody = {
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

const messagesAnswerBody: GuardedBody = {
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

/** Texts of the Responses dialect: requests with their input items, and whole responses. */
const responsesRequestBody: GuardedBody = {
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

const responsesAnswerBody: GuardedBody = {
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

/** Texts of the legacy completions dialect and of embeddings requests. */
const completionsRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    textsOrTokens(into, body['prompt'], 'prompt');
    into.text(body['suffix'], ['suffix'], { role: 'user', kind: 'text', message: -1 });
    identifierTexts(into, body);
    return into;
  },
  /** There is no system message: the text stands in front of each prompt. */
  withSystem(body, { text }: SystemChange) {
    if (!isObject(body)) return body;
    const before = (prompt: unknown) => (typeof prompt === 'string' ? `${text}\n\n${prompt}` : prompt);
    const { prompt } = body;
    return { ...body, prompt: Array.isArray(prompt) ? prompt.map(before) : before(prompt) };
  },
};

const completionsAnswerBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body) || !Array.isArray(body['choices'])) return into;
    for (const [index, choice] of body['choices'].entries()) {
      if (!isObject(choice)) continue;
      into.text(choice['text'], ['choices', index, 'text'], { role: 'assistant', kind: 'text', message: index });
    }
    return into;
  },
};

const embeddingsRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    textsOrTokens(into, body['input'], 'input');
    identifierTexts(into, body);
    return into;
  },
};

function textsOrTokens(into: TextCollector, value: unknown, name: string): void {
  if (typeof value === 'string') into.text(value, [name], { role: 'user', kind: 'text', message: 0 });
  if (!Array.isArray(value)) return;
  for (const [index, one] of value.entries()) {
    if (typeof one === 'string') into.text(one, [name, index], { role: 'user', kind: 'text', message: index });
  }
  if (value.some((one) => typeof one !== 'string')) into.unread([name]);
}

export type GuardedDialect = 'chat' | 'responses' | 'messages' | 'completions' | 'embeddings';

export interface GuardedBodies {
  readonly request: GuardedBody;
  /** Undefined when the answer contains no text. */
  readonly answer: GuardedBody | undefined;
}

export const guardedBodies: Readonly<Record<GuardedDialect, GuardedBodies>> = {
  chat: { request: everyTextOfRequest(chatRequestBody), answer: everyTextOfAnswer(chatAnswerBody) },
  responses: { request: everyTextOfRequest(responsesRequestBody), answer: everyTextOfAnswer(responsesAnswerBody) },
  messages: { request: everyTextOfRequest(messagesRequestBody), answer: everyTextOfAnswer(messagesAnswerBody) },
  completions: {
    request: everyTextOfRequest(completionsRequestBody),
    answer: everyTextOfAnswer(completionsAnswerBody),
  },
  embeddings: { request: everyTextOfRequest(embeddingsRequestBody), answer: undefined },
};
