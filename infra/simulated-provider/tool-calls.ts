/** Whether and how a simulated model calls the tools of a request. */
import type { Ask, Tool, ToolChoice } from './ask.ts';
import { isObject, type Json, listIn, objectIn, textIn } from './json.ts';
import { exactReply, subjectsOf } from './recall.ts';
import { instanceOf } from './schema-instance.ts';
import { sentence } from './words.ts';

export interface ToolCall {
  readonly name: string;
  /** JSON text; of a freeform tool, any text. */
  readonly arguments: string;
  readonly freeform: boolean;
}

const MAX_CALLS = 8;
const INPUT_TOKENS = 4;

/**
 * A model that may call functions calls them until it has a result. With `auto`, a prompt that dictates its reply gets
 * a text.
 */
export function toolCalls(ask: Ask, prompt: string, seed: number): ToolCall[] {
  const { tools, toolChoice } = ask;
  if (tools.length === 0 || toolChoice === 'none' || ask.turns.at(-1)?.role === 'tool') return [];
  if (toolChoice === 'auto' && (ask.text !== undefined || exactReply(prompt) !== undefined)) return [];
  const subjects = subjectsOf(prompt);
  const call = (tool: Tool, i: number): ToolCall => ({
    name: tool.name,
    freeform: tool.freeform === true,
    arguments: tool.freeform
      ? (subjects[i] ?? subjects[0] ?? sentence(seed + i, INPUT_TOKENS))
      : JSON.stringify(instanceOf(tool.parameters, { seed: seed + i, subject: subjects[i] ?? subjects[0] })),
  });
  if (ask.parallelToolCalls && /\bboth (tools|functions)\b/i.test(prompt))
    return tools.slice(0, 2).map((tool) => call(tool, 0));
  const tool =
    typeof toolChoice === 'object' ? tools.find((each) => each.name === toolChoice.name) : bestTool(tools, prompt);
  if (tool === undefined) return [];
  const wanted = ask.parallelToolCalls ? Math.min(Math.max(1, subjects.length), MAX_CALLS) : 1;
  return Array.from({ length: wanted }, (_, i) => call(tool, i));
}

/** The tool whose name shares most words with the prompt; the first one when none does. */
function bestTool(tools: readonly Tool[], prompt: string): Tool | undefined {
  const requested = prompt.toLowerCase();
  let best = tools[0];
  let bestScore = 0;
  for (const tool of tools) {
    const score = tool.name
      .toLowerCase()
      .split(/[^a-z0-9]+/)
      .filter((word) => word.length > 2 && requested.includes(word)).length;
    if (score > bestScore) {
      best = tool;
      bestScore = score;
    }
  }
  return best;
}

/** OpenAI's `tool_choice` in both of its spellings, and the tools that it leaves. */
export function chosen(
  choice: Json | undefined,
  tools: readonly Tool[],
): { tools: readonly Tool[]; toolChoice: ToolChoice } {
  if (choice === 'none' || choice === 'required') return { tools, toolChoice: choice };
  if (!isObject(choice)) return { tools, toolChoice: 'auto' };
  if (choice.type === 'allowed_tools') {
    const allowed = isObject(choice.allowed_tools) ? choice.allowed_tools : choice;
    const names = listIn(allowed.tools).map(nameIn);
    const left = tools.filter((tool) => names.includes(tool.name));
    return { tools: left, toolChoice: allowed.mode === 'required' ? 'required' : 'auto' };
  }
  const name = nameIn(choice);
  return { tools, toolChoice: name === undefined ? 'auto' : { name } };
}

/** Flat, as responses have it, or below the type's name, as chat has it. */
function nameIn(value: Json): string | undefined {
  const { name, function: inFunction, custom } = objectIn(value);
  return textIn(name) ?? textIn(objectIn(inFunction).name) ?? textIn(objectIn(custom).name);
}
