/** What a simulated model answers: a pure function of what it was asked, the same in every dialect. */
import type { Json } from './json.ts';
import { exactReply, recalled, subjectsOf, type Turn } from './recall.ts';
import { instanceOf } from './schema-instance.ts';
import { countTokens, tokensOf } from './tokens.ts';
import { hashOf, sentence, wordFor } from './words.ts';

export interface Tool {
  readonly name: string;
  readonly parameters: Json;
}

export type ToolChoice = 'none' | 'auto' | 'required' | { readonly name: string };

export type Format =
  | { readonly type: 'text' }
  | { readonly type: 'json' }
  | { readonly type: 'schema'; readonly schema: Json };

/** A request, freed of its dialect. */
export interface Ask {
  readonly model: string;
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  readonly toolChoice: ToolChoice;
  readonly parallelToolCalls: boolean;
  /** Reasoning counts towards it. */
  readonly maxTokens: number | undefined;
  readonly stop: readonly string[];
  readonly format: Format;
  /** Undefined leaves it to the prompt: one that says "think" is thought about. */
  readonly reasoning: boolean | undefined;
  readonly seed: number;
  /** Length of a text that nothing else decides, in tokens. */
  readonly length: number;
  /** Answered as it is, when given. */
  readonly text: string | undefined;
}

export interface FunctionCall {
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

export interface Answer {
  readonly reasoning: readonly string[];
  /** The text, token by token. */
  readonly tokens: readonly string[];
  readonly text: string;
  readonly calls: readonly FunctionCall[];
  readonly finish: 'stop' | 'length' | 'tool_calls';
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
}

const REASONING_TOKENS = 8;
const MAX_CALLS = 8;

/** `choice` tells the answers of one request with `n` > 1 apart. */
export function answer(ask: Ask, choice = 0): Answer {
  const seed = seedOf(ask, choice);
  const prompt = ask.turns.findLast((turn) => turn.role === 'user')?.text ?? '';
  const calls = functionCalls(ask, prompt, seed);
  const budget = ask.maxTokens ?? Number.POSITIVE_INFINITY;
  const thinks = ask.reasoning ?? /\bthink\b/i.test(prompt);
  const reasoning = thinks ? tokensOf(sentence(seed ^ 1, REASONING_TOKENS)).slice(0, budget) : [];
  const whole = calls.length > 0 ? '' : textFor(ask, prompt, seed);
  const stopped = cutAtStop(whole, ask.stop);
  const all = tokensOf(stopped);
  const tokens = all.slice(0, Math.max(0, budget - reasoning.length));
  const callTokens = calls.reduce((sum, call) => sum + countTokens(call.name) + countTokens(call.arguments), 0);
  return {
    reasoning,
    tokens,
    text: tokens.length === all.length ? stopped : tokens.join(''),
    calls,
    finish: calls.length > 0 ? 'tool_calls' : tokens.length < all.length ? 'length' : 'stop',
    promptTokens: promptTokens(ask),
    completionTokens: reasoning.length + tokens.length + callTokens,
    reasoningTokens: reasoning.length,
  };
}

/** Every turn costs three tokens more than its text, for its role and its borders. */
export function promptTokens(ask: Pick<Ask, 'turns' | 'tools'>): number {
  let count = 3;
  for (const turn of ask.turns) count += 3 + countTokens(turn.text);
  for (const tool of ask.tools) count += countTokens(tool.name) + countTokens(JSON.stringify(tool.parameters));
  return count;
}

function seedOf(ask: Ask, choice: number): number {
  let seed = hashOf(ask.model);
  for (const turn of ask.turns) seed = hashOf(turn.text, hashOf(turn.role, seed));
  return (seed + ask.seed * 7919 + choice * 104_729) >>> 0;
}

function textFor(ask: Ask, prompt: string, seed: number): string {
  if (ask.text !== undefined) return ask.text;
  if (ask.format.type === 'schema')
    return JSON.stringify(instanceOf(ask.format.schema, { seed, subject: subjectsOf(prompt)[0] }));
  const exact = exactReply(prompt);
  if (ask.format.type === 'json') return JSON.stringify({ answer: exact ?? sentence(seed, ask.length) });
  if (ask.turns.at(-1)?.role === 'tool') return `The result is: ${toolResults(ask.turns).join('; ')}`;
  if (exact !== undefined) return exact;
  return recalled(ask.turns) ?? sentence(seed, lengthAskedFor(prompt) ?? ask.length);
}

/** The results since the last turn that is not one. */
function toolResults(turns: readonly Turn[]): string[] {
  const start = turns.findLastIndex((turn) => turn.role !== 'tool') + 1;
  return turns.slice(start).map((turn) => turn.text);
}

const AT_LENGTH = 120;

function lengthAskedFor(prompt: string): number | undefined {
  const words = /\b(\d{1,6}) words\b/.exec(prompt)?.[1];
  if (words !== undefined) return Number(words);
  return /\b(at length|in detail|long story|essay)\b/i.test(prompt) ? AT_LENGTH : undefined;
}

function cutAtStop(text: string, stops: readonly string[]): string {
  let end = text.length;
  for (const stop of stops) {
    const found = stop === '' ? -1 : text.indexOf(stop);
    if (found !== -1 && found < end) end = found;
  }
  return text.slice(0, end);
}

/**
 * A model that may call functions does, until it has a result. With `auto`, a prompt that dictates its reply is
 * answered in words.
 */
function functionCalls(ask: Ask, prompt: string, seed: number): FunctionCall[] {
  const { tools, toolChoice } = ask;
  if (tools.length === 0 || toolChoice === 'none' || ask.turns.at(-1)?.role === 'tool') return [];
  if (toolChoice === 'auto' && (ask.text !== undefined || exactReply(prompt) !== undefined)) return [];
  const subjects = subjectsOf(prompt);
  const call = (tool: Tool, i: number): FunctionCall => ({
    name: tool.name,
    arguments: JSON.stringify(instanceOf(tool.parameters, { seed: seed + i, subject: subjects[i] ?? subjects[0] })),
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
  const asked = prompt.toLowerCase();
  let best = tools[0];
  let bestScore = 0;
  for (const tool of tools) {
    const score = tool.name
      .toLowerCase()
      .split(/[^a-z0-9]+/)
      .filter((word) => word.length > 2 && asked.includes(word)).length;
    if (score > bestScore) {
      best = tool;
      bestScore = score;
    }
  }
  return best;
}

type Likely = { token: string; logprob: number; bytes: number[] };
export type TokenLogprob = Likely & { top_logprobs: Likely[] };

/** Made up, and the same for the same token: the likeliest alternative is the token itself. */
export function logprobOf(token: string, alternatives: number): TokenLogprob {
  const hash = hashOf(token);
  const logprob = -(hash % 1000) / 2000;
  const entry = (text: string, value: number) => ({ token: text, logprob: value, bytes: [...Buffer.from(text)] });
  const others = Array.from({ length: Math.max(0, alternatives - 1) }, (_, i) =>
    entry(` ${wordFor(hash + i)}`, logprob - i - 1),
  );
  return { ...entry(token, logprob), top_logprobs: alternatives > 0 ? [entry(token, logprob), ...others] : [] };
}
