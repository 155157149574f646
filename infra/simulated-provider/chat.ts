/** OpenAI's chat completions, parsed and rendered. */
import { type Answer, answer, logprobOf } from './answer.ts';
import type { Ask, Format, Tool } from './ask.ts';
import type { Fault } from './fault.ts';
import { isObject, type Json, type JsonObject, listIn, numberIn, objectIn, textIn } from './json.ts';
import type { Turn } from './recall.ts';
import { Refused } from './refused.ts';
import { DONE, dataFrame, type Frame, type Reply } from './reply.ts';
import { chosen, type ToolCall } from './tool-calls.ts';

/** Values that all answers of a provider share. */
export interface Rendering {
  readonly fault: Fault | undefined;
  /** Default length of a text, in tokens. */
  readonly words: number;
  newId(prefix: string): string;
  /** Unix seconds. */
  now(): number;
}

export function chatCompletion(body: JsonObject, rendering: Rendering): Reply {
  const ask = askOfChat(body, rendering);
  const n = numberIn(body.n) ?? 1;
  if (!Number.isInteger(n) || n < 1 || n > 128)
    throw new Refused(400, 'n must be an integer from 1 to 128', { param: 'n' });
  const answers = Array.from({ length: n }, (_, choice) => answer(ask, choice));
  const alternatives = body.logprobs === true ? (numberIn(body.top_logprobs) ?? 0) : undefined;
  const head = {
    id: rendering.newId('chatcmpl-'),
    created: rendering.now(),
    model: ask.model,
    system_fingerprint: 'simulated',
  };
  if (body.stream === true) {
    const includeUsage = objectIn(body.stream_options).include_usage === true;
    return { status: 200, frames: chunks(head, answers, { alternatives, includeUsage, rendering }) };
  }
  const choices = answers.map((each, index) => ({
    index,
    message: messageOf(each, rendering),
    logprobs: logprobsOf(each.tokens, alternatives, each.refused),
    finish_reason: each.finish,
    ...stoppedBy(each),
  }));
  const json = {
    ...head,
    object: 'chat.completion',
    choices: rendering.fault?.emptyChoices ? [] : choices,
    ...(rendering.fault?.usage === false ? {} : { usage: usageOf(answers) }),
  };
  return { status: 200, json };
}

export function askOfChat(body: JsonObject, rendering: Rendering): Ask {
  const { messages } = body;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new Refused(400, 'messages must be a list of at least one message', { param: 'messages' });
  }
  return {
    ...settingsOf(body, rendering),
    turns: messages.map(turnOf),
    ...chosen(body.tool_choice, listIn(body.tools).flatMap(toolOf)),
    maxTokens: numberIn(body.max_completion_tokens) ?? numberIn(body.max_tokens),
    stop: typeof body.stop === 'string' ? [body.stop] : listIn(body.stop).filter((each) => typeof each === 'string'),
    format: formatOf(body.response_format),
    reasoning: reasoningFor(body.reasoning_effort ?? objectIn(body.reasoning).effort),
  };
}

/** The members that are the same in every dialect. */
export function settingsOf(body: JsonObject, { fault, words }: Rendering) {
  if (body.model !== undefined && typeof body.model !== 'string')
    throw new Refused(400, 'model must be a string', { param: 'model' });
  const chunks = fault?.chunks === undefined ? undefined : fault.chunks * (fault.tokensPerChunk ?? 1);
  return {
    model: body.model ?? 'simulated-small',
    parallelToolCalls: body.parallel_tool_calls !== false,
    seed: numberIn(body.seed) ?? 0,
    length: fault?.words ?? chunks ?? words,
    text: fault?.text,
  };
}

/** An effort turns reasoning on, `none` off; without one the prompt decides. */
export function reasoningFor(effort: Json | undefined): boolean | undefined {
  return typeof effort === 'string' && effort !== '' ? effort !== 'none' : undefined;
}

const ROLES: Readonly<Record<string, Turn['role']>> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
};

function turnOf(message: Json): Turn {
  if (!isObject(message)) throw new Refused(400, 'every message must be an object', { param: 'messages' });
  const role = ROLES[textIn(message.role) ?? ''];
  if (role === undefined)
    throw new Refused(400, `unknown role ${JSON.stringify(message.role ?? null)}`, { param: 'messages' });
  const calls = listIn(message.tool_calls).map((call) => {
    const { function: named, custom } = objectIn(call);
    return JSON.stringify(named ?? custom ?? {});
  });
  return { role, text: [textOfContent(message.content), ...calls].filter((part) => part !== '').join('\n') };
}

/** The text of a message's content: a string, or the text parts of a list. */
export function textOfContent(content: Json | undefined): string {
  if (typeof content === 'string') return content;
  return listIn(content)
    .map((part) => textIn(objectIn(part).text) ?? '')
    .join('');
}

function toolOf(tool: Json): Tool[] {
  const { type, function: given, custom } = objectIn(tool);
  if (type === 'custom') {
    const name = textIn(objectIn(custom).name);
    return name === undefined ? [] : [{ name, parameters: {}, freeform: true }];
  }
  const { name, parameters } = objectIn(given);
  return typeof name === 'string' ? [{ name, parameters: parameters ?? { type: 'object' } }] : [];
}

export function formatOf(format: Json | undefined): Format {
  const { type, json_schema, schema } = objectIn(format);
  if (type === 'json_object') return schema === undefined ? { type: 'json' } : { type: 'schema', schema };
  if (type === 'json_schema') return { type: 'schema', schema: objectIn(json_schema).schema ?? schema ?? {} };
  return { type: 'text' };
}

function messageOf(given: Answer, { newId }: Rendering) {
  const { calls, refused, reasoning, text } = given;
  const annotations = annotationsOf(given);
  return {
    role: 'assistant',
    content: calls.length > 0 || refused ? null : text,
    refusal: refused ? text : null,
    ...(reasoning.length > 0 ? { reasoning_content: reasoning.join('') } : {}),
    ...(annotations.length > 0 ? { annotations } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map((call) => ({ id: newId('call_'), ...shownCall(call) })) } : {}),
  };
}

function logprobsOf(tokens: readonly string[], alternatives: number | undefined, refused: boolean) {
  if (alternatives === undefined) return null;
  const entries = tokens.map((token) => logprobOf(token, alternatives));
  return refused ? { content: null, refusal: entries } : { content: entries, refusal: null };
}

function annotationsOf({ citations }: Answer) {
  return citations.map((url_citation) => ({ type: 'url_citation', url_citation }));
}

function shownCall({ name, arguments: text, freeform }: ToolCall) {
  return freeform
    ? { type: 'custom', custom: { name, input: text } }
    : { type: 'function', function: { name, arguments: text } };
}

/** A further piece of a call's arguments or input. */
function callPiece({ freeform }: ToolCall, piece: string) {
  return freeform ? { custom: { input: piece } } : { function: { arguments: piece } };
}

function usageOf(answers: readonly Answer[]) {
  const prompt = answers[0]?.promptTokens ?? 0;
  const completion = answers.reduce((sum, each) => sum + each.completionTokens, 0);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: answers.reduce((sum, each) => sum + each.reasoningTokens, 0) },
  };
}

interface Streaming {
  readonly alternatives: number | undefined;
  readonly includeUsage: boolean;
  readonly rendering: Rendering;
}

function* chunks(
  head: object,
  answers: readonly Answer[],
  { alternatives, includeUsage, rendering }: Streaming,
): Generator<Frame> {
  const { fault, newId } = rendering;
  const base = { ...head, object: 'chat.completion.chunk' };
  const noUsage = includeUsage ? { usage: null } : {};
  const chunk = (
    kind: Frame['kind'],
    index: number,
    delta: object,
    finish: string | null = null,
    tokens?: readonly string[],
  ) => {
    const logprobs = tokens ? logprobsOf(tokens, alternatives, answers[index]?.refused === true) : null;
    const ended = finish === null ? {} : stoppedBy(answers[index]);
    const choices = fault?.emptyChoices ? [] : [{ index, delta, logprobs, finish_reason: finish, ...ended }];
    return dataFrame(kind, { ...base, choices, ...noUsage });
  };
  for (const [index, given] of answers.entries()) {
    yield chunk('open', index, { role: 'assistant', content: given.calls.length > 0 ? null : '' });
    for (const token of given.reasoning) yield chunk('delta', index, { reasoning_content: token });
    for (const tokens of grouped(given.tokens, fault)) {
      const text = tokens.join('');
      yield chunk('delta', index, given.refused ? { refusal: text } : { content: text }, null, tokens);
    }
    if (given.citations.length > 0) yield chunk('delta', index, { annotations: annotationsOf(given) });
    for (const [at, call] of given.calls.entries()) {
      const opening = { index: at, id: newId('call_'), ...shownCall({ ...call, arguments: '' }) };
      yield chunk('delta', index, { tool_calls: [opening] });
      for (const piece of pieces(call.arguments))
        yield chunk('delta', index, { tool_calls: [{ index: at, ...callPiece(call, piece) }] });
    }
    yield chunk('finish', index, {}, given.finish);
  }
  if (includeUsage && fault?.usage !== false)
    yield dataFrame('usage', { ...base, choices: [], usage: usageOf(answers) });
  yield DONE;
}

/** The stop sequence that ended an answer, in vLLM's member `stop_reason`: `finish_reason` does not contain it. */
function stoppedBy(given: Answer | undefined): { readonly stop_reason?: string } {
  return given?.stopSequence === undefined ? {} : { stop_reason: given.stopSequence };
}

/** Groups of tokens that are sent together: single tokens by default; a fault may set another size. */
export function grouped(tokens: readonly string[], fault: Fault | undefined): (readonly string[])[] {
  if (fault?.chunks !== undefined) {
    const count = Math.min(fault.chunks, tokens.length);
    const border = (i: number) => Math.floor((i * tokens.length) / count);
    return Array.from({ length: count }, (_, i) => tokens.slice(border(i), border(i + 1)));
  }
  const size = fault?.tokensPerChunk ?? 1;
  return Array.from({ length: Math.ceil(tokens.length / size) }, (_, i) => tokens.slice(i * size, (i + 1) * size));
}

/** A function call's arguments, in the pieces in which they are streamed. */
export function pieces(text: string, size = 12): string[] {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, i) => text.slice(i * size, (i + 1) * size));
}
