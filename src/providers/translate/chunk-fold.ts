/**
 * Combines a stream of chat completion chunks into one completion. Readers of other dialects read a whole answer as a
 * stream with a single step, so the results cannot differ.
 */
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from './json.ts';
import { mergedExtra } from './responses-to-chat/extra-content.ts';

interface Call {
  readonly members: Record<string, unknown>;
  name: string;
  arguments: string;
}

/** The first choice of the chunks; undefined when there are none, or for an error. */
export function completionOf(chunks: readonly JsonObject[]): JsonObject | undefined {
  let root: JsonObject = {};
  let content = '';
  let reasoning = '';
  let finishReason: unknown = null;
  let usage: unknown;
  const logprobs: unknown[] = [];
  const annotations: unknown[] = [];
  const message: Record<string, unknown> = {};
  const beside: Record<string, unknown> = {};
  const calls: Call[] = [];
  let extra: JsonObject | undefined;
  let hasChoice = false;

  for (const chunk of chunks) {
    const { choices, usage: counted, object: _object, ...members } = chunk;
    if ('error' in members || !Array.isArray(choices)) return undefined;
    root = { ...root, ...members };
    if (isObject(counted)) usage = counted;
    const choice: unknown = choices[0];
    if (!isObject(choice)) continue;
    hasChoice = true;
    const { index: _index, delta, finish_reason, logprobs: probabilities, ...more } = choice;
    Object.assign(beside, more);
    finishReason = finish_reason ?? finishReason;
    if (isObject(probabilities) && Array.isArray(probabilities['content'])) logprobs.push(...probabilities['content']);
    if (!isObject(delta)) continue;
    const {
      role: _role,
      content: text,
      reasoning_content: thought,
      tool_calls,
      annotations: cited,
      extra_content,
      ...rest
    } = delta;
    if (typeof text === 'string') content += text;
    if (typeof thought === 'string') reasoning += thought;
    Object.assign(message, rest);
    if (isObject(extra_content)) extra = mergedExtra(extra, extra_content);
    if (Array.isArray(cited)) annotations.push(...cited);
    if (Array.isArray(tool_calls)) for (const call of tool_calls.filter(isObject)) addCall(calls, call);
  }
  if (!hasChoice) return undefined;
  return {
    ...root,
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: content === '' && calls.length > 0 ? null : content,
          refusal: null,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0 ? {} : { tool_calls: calls.map(wholeCall) }),
          ...(annotations.length === 0 ? {} : { annotations }),
          ...(extra === undefined ? {} : { extra_content: extra }),
          ...message,
        },
        logprobs: logprobs.length === 0 ? null : { content: logprobs, refusal: null },
        finish_reason: finishReason,
        ...beside,
      },
    ],
    ...(usage === undefined ? {} : { usage }),
  };
}

function addCall(calls: Call[], { index, function: called, ...members }: JsonObject): void {
  const at = typeof index === 'number' ? index : calls.length;
  const call = calls[at] ?? { members: {}, name: '', arguments: '' };
  calls[at] = call;
  Object.assign(call.members, members);
  if (!isObject(called)) return;
  if (typeof called['name'] === 'string') call.name += called['name'];
  if (typeof called['arguments'] === 'string') call.arguments += called['arguments'];
}

function wholeCall({ members, name, arguments: args }: Call): JsonObject {
  return { ...members, function: { name, arguments: args } };
}
