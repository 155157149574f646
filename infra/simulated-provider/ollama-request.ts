/** Ollama's chat request, checked as by Ollama's Go types, and converted to the common form. */
import type { Ask, Format, Tool } from './ask.ts';
import { type Rendering, settingsOf } from './chat.ts';
import { isObject, type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';

export function askOfOllama(body: JsonObject, rendering: Rendering): Ask {
  const options = objectIn(body.options);
  const most = numberIn(options.num_predict);
  return {
    ...settingsOf({ ...body, seed: options.seed }, rendering),
    turns: listIn(body.messages).map(turnOf),
    tools: listIn(body.tools).flatMap(toolOf),
    toolChoice: 'auto',
    parallelToolCalls: true,
    maxTokens: most === undefined || most < 0 ? undefined : most,
    stop: stopOf(options.stop),
    format: formatOf(body.format),
    reasoning: thinks(body.think),
  };
}

function stopOf(stop: Json | undefined): string[] {
  if (stop !== undefined && stop !== null && !Array.isArray(stop))
    throw new Refused(400, 'option "stop" must be of type array');
  return listIn(stop).map((each) => {
    if (typeof each !== 'string') throw new Refused(400, 'option "stop" must be of an array of strings');
    return each;
  });
}

/** Undefined when the request does not contain it: then the prompt decides. */
function thinks(think: Json | undefined): boolean | undefined {
  if (think === undefined || think === null) return undefined;
  if (typeof think === 'boolean') return think;
  if (think === 'low' || think === 'medium' || think === 'high' || think === 'max') return true;
  throw new Refused(400, `invalid think value: "${String(think)}" (must be "high", "medium", "low", true, or false)`);
}

function formatOf(format: Json | undefined): Format {
  if (format === undefined || format === null || format === '') return { type: 'text' };
  if (format === 'json') return { type: 'json' };
  if (isObject(format)) return { type: 'schema', schema: format };
  throw new Refused(400, `invalid format: ${JSON.stringify(format)}; expected "json" or a valid JSON Schema object`);
}

const ROLES: readonly Turn['role'][] = ['system', 'user', 'assistant', 'tool'];

function turnOf(message: Json): Turn {
  const { role: named, content, images, tool_calls } = objectIn(message);
  const role = ROLES.find((each) => each === named);
  if (role === undefined) throw new Refused(400, 'invalid role; must be one of system, user, assistant or tool');
  if (content !== undefined && content !== null && typeof content !== 'string')
    throw unmarshalled(content, 'messages.content of type string');
  for (const image of listIn(images)) {
    if (typeof image !== 'string' || !/^[A-Za-z0-9+/]*=*$/.test(image))
      throw new Refused(400, 'illegal base64 data at input byte 4');
  }
  const calls = listIn(tool_calls).map((call) => {
    const { name, arguments: given } = objectIn(objectIn(call).function);
    if (!isObject(given)) throw unmarshalled(given, 'messages.tool_calls.function.arguments of type object');
    return JSON.stringify({ name, arguments: JSON.stringify(given) });
  });
  return { role, text: [textIn(content) ?? '', ...calls].filter((part) => part !== '').join('\n') };
}

function unmarshalled(value: Json | undefined, where: string): Refused {
  const kind = Array.isArray(value) ? 'array' : typeof value;
  return new Refused(400, `json: cannot unmarshal ${kind} into Go struct field ChatRequest.${where}`);
}

function toolOf(tool: Json): Tool[] {
  const { name, parameters } = objectIn(objectIn(tool).function);
  return typeof name === 'string' ? [{ name, parameters: parameters ?? { type: 'object' } }] : [];
}
