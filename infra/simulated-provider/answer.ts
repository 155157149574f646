/** The answer of a simulated model: a pure function of the request, the same in every dialect. */
import type { Ask } from './ask.ts';
import { exactReply, recalled, subjectsOf, type Turn } from './recall.ts';
import { instanceOf } from './schema-instance.ts';
import { countTokens, tokensOf } from './tokens.ts';
import { type ToolCall, toolCalls } from './tool-calls.ts';
import { hashOf, sentence, wordFor } from './words.ts';

/** A source for a stretch of the text: UTF-16 code units, the end excluded. */
export interface Citation {
  readonly start_index: number;
  readonly end_index: number;
  readonly url: string;
  readonly title: string;
}

export interface Answer {
  /** The text that it answers: the last user turn. */
  readonly prompt: string;
  readonly reasoning: readonly string[];
  /** The text, token by token. */
  readonly tokens: readonly string[];
  readonly text: string;
  /** The text is a refusal, and is sent as such in dialects that have a member for it. */
  readonly refused: boolean;
  readonly citations: readonly Citation[];
  readonly calls: readonly ToolCall[];
  readonly finish: 'stop' | 'length' | 'tool_calls' | 'content_filter';
  /** The stop sequence that ended the text. */
  readonly stopSequence: string | undefined;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly reasoningTokens: number;
}

const REASONING_TOKENS = 8;
const REFUSE = /^\s*refuse:\s*(.+)$/im;
const FILTER = /^\s*filter:\s*(.+)$/im;
const CITE = /\bcite\b|\bwith (?:a )?citations?\b/i;

/** `choice` numbers the answers of one request with `n` > 1, which differ by it. */
export function answer(ask: Ask, choice = 0): Answer {
  const seed = seedOf(ask, choice);
  const prompt = ask.turns.findLast((turn) => turn.role === 'user')?.text ?? '';
  const refusal = REFUSE.exec(prompt)?.[1];
  const filtered = FILTER.exec(prompt)?.[1];
  const plain = refusal ?? filtered;
  const calls = plain === undefined ? toolCalls(ask, prompt, seed) : [];
  const budget = ask.maxTokens ?? Number.POSITIVE_INFINITY;
  const thinks = ask.reasoning ?? /\bthink\b/i.test(prompt);
  const reasoning = thinks ? tokensOf(sentence(seed ^ 1, REASONING_TOKENS)).slice(0, budget) : [];
  const whole = calls.length > 0 ? '' : (plain ?? textFor(ask, prompt, seed));
  const stop = firstStop(whole, ask.stop);
  const stopped = stop === undefined ? whole : whole.slice(0, whole.indexOf(stop));
  const all = tokensOf(stopped);
  const tokens = all.slice(0, Math.max(0, budget - reasoning.length));
  const text = tokens.length === all.length ? stopped : tokens.join('');
  const cut = tokens.length < all.length;
  const callTokens = calls.reduce((sum, call) => sum + countTokens(call.name) + countTokens(call.arguments), 0);
  return {
    prompt,
    reasoning,
    tokens,
    text,
    refused: refusal !== undefined,
    citations: CITE.test(prompt) && text !== '' ? [citationFor(text, seed)] : [],
    calls,
    finish: calls.length > 0 ? 'tool_calls' : cut ? 'length' : filtered === undefined ? 'stop' : 'content_filter',
    stopSequence: cut ? undefined : stop,
    promptTokens: promptTokens(ask),
    completionTokens: reasoning.length + tokens.length + callTokens,
    reasoningTokens: reasoning.length,
  };
}

function citationFor(text: string, seed: number): Citation {
  const word = wordFor(seed);
  return { start_index: 0, end_index: text.length, url: `https://example.com/${word}`, title: `About ${word}` };
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

/** The tool results after the last turn that is none. */
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

function firstStop(text: string, stops: readonly string[]): string | undefined {
  let first: string | undefined;
  let end = text.length;
  for (const stop of stops) {
    const found = stop === '' ? -1 : text.indexOf(stop);
    if (found === -1 || found >= end) continue;
    first = stop;
    end = found;
  }
  return first;
}

type Likely = { token: string; logprob: number; bytes: number[] };
export type TokenLogprob = Likely & { top_logprobs: Likely[] };

/** Synthetic, and the same for the same token: the likeliest alternative is the token itself. */
export function logprobOf(token: string, alternatives: number): TokenLogprob {
  const hash = hashOf(token);
  const logprob = -(hash % 1000) / 2000;
  const entry = (text: string, value: number) => ({ token: text, logprob: value, bytes: [...Buffer.from(text)] });
  const others = Array.from({ length: Math.max(0, alternatives - 1) }, (_, i) =>
    entry(` ${wordFor(hash + i)}`, logprob - i - 1),
  );
  return { ...entry(token, logprob), top_logprobs: alternatives > 0 ? [entry(token, logprob), ...others] : [] };
}
