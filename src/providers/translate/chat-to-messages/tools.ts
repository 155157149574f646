/**
 * Tools and `tool_choice` in the format of the Messages API.
 *
 * | Chat | Messages |
 * |---|---|
 * | `function` | tool with `input_schema`; `strict: true` and members beside the function are kept |
 * | `custom` | refused: the Messages API has no tools with free text |
 * | any other type (`web_search_20250305`, …) | unchanged: it is the provider's own, or the provider refuses it |
 * | `tool_choice` `auto`, `none` | the same |
 * | `tool_choice` `required` | `any` |
 * | `tool_choice` of a function | `tool` |
 * | `tool_choice` `allowed_tools` | only those tools are sent, and its mode is the choice |
 * | `parallel_tool_calls: false` | `disable_parallel_tool_use` of the choice |
 * | `response_format` `json_object` | a tool of the gateway, which the model has to call: its input is the answer |
 */
import { isObject } from '../../../json/is-object.ts';
import { filled, type JsonObject, type Refused, refuse, withoutNulls } from '../json.ts';

export interface Tools {
  readonly ok: true;
  /** `tools` and `tool_choice`, if they are sent. */
  readonly members: JsonObject;
}

const ownChoices = new Set(['auto', 'any', 'tool', 'none']);

export function toolMembers(chat: JsonObject): Tools | Refused {
  const given = chat['tools'] ?? [];
  if (!Array.isArray(given)) return refuse('invalid_type', 'tools', "'tools' must be an array.");
  const tools: JsonObject[] = [];
  for (const [index, tool] of given.entries()) {
    const translated = toolOf(tool, `tools[${index}]`);
    if ('ok' in translated) return translated;
    if (translated.tool['name'] === jsonAnswerTool) {
      return refuse(
        'invalid_value',
        `tools[${index}]`,
        `The name '${jsonAnswerTool}' belongs to a tool of the gateway.`,
      );
    }
    tools.push(translated.tool);
  }
  const toolChoice = chat['tool_choice'];
  if (isObject(toolChoice) && toolChoice['type'] === 'allowed_tools') {
    const allowed = isObject(toolChoice['allowed_tools']) ? toolChoice['allowed_tools'] : toolChoice;
    const names = namesIn(allowed['tools']);
    return chosen(
      chat,
      tools.filter(({ name }) => names.has(name)),
      allowed['mode'] ?? 'auto',
    );
  }
  return chosen(chat, tools, toolChoice);
}

/**
 * The tool whose input is the answer of a model that has to answer with a JSON object: the Messages API enforces JSON of
 * any shape only as the input of a tool. The reader returns a call of it as text, so no tool of a client may have its name.
 */
export const jsonAnswerTool = 'gateway_json_answer';

const jsonAnswer: JsonObject = {
  name: jsonAnswerTool,
  description:
    'Gives the answer to the user, as one JSON object with the members that the conversation asks for. ' +
    'Always answer with this tool.',
  input_schema: { type: 'object', properties: {}, additionalProperties: true },
};

/** The tools of a request whose answer has to be a JSON object: the model calls one of the client's, or answers. */
export function withJsonAnswer({ tools, tool_choice: choice }: JsonObject): JsonObject {
  const own = Array.isArray(tools) ? tools : [];
  const { type, ...rest } = isObject(choice) ? choice : { type: 'auto' };
  // The client demands a call: there is no answer that could be JSON.
  if (type === 'any' || type === 'tool') return { tools: own, tool_choice: choice };
  const isOnly = own.length === 0 || type === 'none';
  return {
    tools: [...own, jsonAnswer],
    tool_choice: isOnly ? { type: 'tool', name: jsonAnswerTool } : { type: 'any', ...rest },
  };
}

function chosen(chat: JsonObject, tools: readonly JsonObject[], toolChoice: unknown): Tools | Refused {
  const made = choiceOf(toolChoice);
  if (!made.ok) return made;
  const { choice } = made;
  if (tools.length === 0) {
    if (choice === undefined || choice['type'] === 'auto' || choice['type'] === 'none')
      return { ok: true, members: {} };
    return refuse('invalid_value', 'tool_choice', "'tool_choice' demands a tool, but none is given.");
  }
  if (chat['parallel_tool_calls'] !== false || choice?.['type'] === 'none') {
    return { ok: true, members: { tools, ...(choice === undefined ? {} : { tool_choice: choice }) } };
  }
  return {
    ok: true,
    members: { tools, tool_choice: { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true } },
  };
}

function choiceOf(toolChoice: unknown): { readonly ok: true; readonly choice: JsonObject | undefined } | Refused {
  if (toolChoice === undefined || toolChoice === null || toolChoice === '') return { ok: true, choice: undefined };
  if (toolChoice === 'auto' || toolChoice === 'none') return { ok: true, choice: { type: toolChoice } };
  if (toolChoice === 'required') return { ok: true, choice: { type: 'any' } };
  if (isObject(toolChoice)) {
    const called = toolChoice['function'];
    const name = filled(isObject(called) ? called['name'] : undefined);
    if (toolChoice['type'] === 'function' && name !== undefined) return { ok: true, choice: { type: 'tool', name } };
    if (typeof toolChoice['type'] === 'string' && ownChoices.has(toolChoice['type']))
      return { ok: true, choice: toolChoice };
  }
  return refuse('invalid_value', 'tool_choice', "'tool_choice' must be auto, none, required, or name a function.");
}

function toolOf(tool: unknown, path: string): { readonly tool: JsonObject } | Refused {
  if (!isObject(tool)) return refuse('invalid_type', path, `${path} must be an object.`);
  const { type, function: called, ...beside } = tool;
  if (type === 'custom' && !isObject(tool['input_schema'])) {
    const message = `${path} is a custom tool, and Anthropic's models call tools with JSON only: give it as a function.`;
    return refuse('unsupported_value', `${path}.type`, message);
  }
  if (type !== 'function') return { tool };
  if (!isObject(called))
    return refuse('missing_required_parameter', `${path}.function`, `${path}.function is missing.`);
  const { parameters, strict, ...members } = called;
  return {
    tool: {
      ...withoutNulls(members),
      input_schema: isObject(parameters) ? parameters : { type: 'object', properties: {} },
      ...(strict === true ? { strict } : {}),
      ...withoutNulls(beside),
    },
  };
}

function namesIn(tools: unknown): ReadonlySet<unknown> {
  if (!Array.isArray(tools)) return new Set();
  return new Set(
    tools.map((tool) => {
      const called = isObject(tool) ? tool['function'] : undefined;
      return isObject(called) ? called['name'] : isObject(tool) ? tool['name'] : undefined;
    }),
  );
}
