/** Ollama's own API, below the server's root: https://github.com/ollama/ollama/blob/main/docs/api.md */
import { type Answer, answer, logprobOf } from './answer.ts';
import { grouped, type Rendering } from './chat.ts';
import { embeddingOf } from './embeddings.ts';
import { type JsonObject, listIn, numberIn, objectIn, parseJson, textIn } from './json.ts';
import { askOfOllama } from './ollama-request.ts';
import { CONTEXT_WINDOW, type SimulatedModel } from './options.ts';
import { Refused } from './refused.ts';
import type { Frame, Reply } from './reply.ts';
import { countTokens } from './tokens.ts';
import { hashOf } from './words.ts';

const VERSION = '0.13.0';
const ARCHITECTURE = 'simulated';
const DIMENSIONS = 64;
const NANOSECONDS_PER_TOKEN = 1_000_000;

export interface OllamaModels {
  readonly models: readonly SimulatedModel[];
  /** Unix seconds. */
  readonly started: number;
  readonly contextWindow?: number;
}

export function ollamaVersion(): Reply {
  return { status: 200, json: { version: VERSION } };
}

export function ollamaTags(known: OllamaModels): Reply {
  const models = known.models.map(({ id }) => ({
    name: id,
    model: id,
    modified_at: timeOf(known.started),
    size: 1_000_000,
    digest: hashOf(id).toString(16).padStart(64, '0'),
    details: details(),
  }));
  return { status: 200, json: { models } };
}

export function ollamaShow(body: JsonObject, known: OllamaModels): Reply {
  const id = textIn(body.model) ?? textIn(body.name);
  const model = known.models.find((each) => each.id === id);
  if (model === undefined) throw new Refused(404, `model '${id ?? ''}' not found`);
  const embeds = /embed/i.test(model.id);
  const json = {
    modelfile: `FROM ${model.id}`,
    parameters: '',
    template: '{{ .Prompt }}',
    details: details(),
    model_info: {
      'general.architecture': ARCHITECTURE,
      'general.parameter_count': 1_000_000,
      [`${ARCHITECTURE}.context_length`]: known.contextWindow ?? CONTEXT_WINDOW,
      [`${ARCHITECTURE}.embedding_length`]: DIMENSIONS,
    },
    capabilities: embeds ? ['embedding'] : ['completion', 'tools', 'thinking', 'vision'],
    modified_at: timeOf(known.started),
  };
  return { status: 200, json };
}

export function ollamaChat(body: JsonObject, rendering: Rendering): Reply {
  const head = { model: textIn(body.model) ?? '', created_at: timeOf(rendering.now()) };
  if (listIn(body.messages).length === 0) {
    const message = { role: 'assistant', content: '' };
    return { status: 200, json: { ...head, message, done_reason: 'load', done: true } };
  }
  const given = answer(askOfOllama(body, rendering));
  const likely: Likely = (tokens) => logprobsOf(body, tokens);
  if (body.stream !== false) return { status: 200, frames: lines(head, given, rendering, likely) };
  const message = rendering.fault?.emptyChoices ? {} : { message: messageOf(given, rendering) };
  return { status: 200, json: { ...head, ...message, ...ending(given, rendering), ...likely(given.tokens) } };
}

export function ollamaEmbed(body: JsonObject): Reply {
  const { input } = body;
  const texts = (typeof input === 'string' ? [input] : listIn(input)).map((each) => {
    if (typeof each !== 'string') throw new Refused(400, 'invalid input type');
    return each;
  });
  const json = {
    model: textIn(body.model) ?? '',
    embeddings: texts.map((text) => embeddingOf(text, numberIn(body.dimensions) ?? DIMENSIONS)),
    total_duration: texts.length * NANOSECONDS_PER_TOKEN,
    load_duration: NANOSECONDS_PER_TOKEN,
    prompt_eval_count: texts.reduce((sum, text) => sum + countTokens(text), 0),
  };
  return { status: 200, json };
}

/** The member `logprobs` for these tokens, when the request contains it. */
type Likely = (tokens: readonly string[]) => JsonObject;

/** Alternatives are included only when there are some. */
function logprobsOf({ logprobs, top_logprobs }: JsonObject, tokens: readonly string[]): JsonObject {
  if (logprobs !== true || tokens.length === 0) return {};
  const entries = tokens.map((token) => {
    const { top_logprobs: others, ...entry } = logprobOf(token, numberIn(top_logprobs) ?? 0);
    return others.length === 0 ? entry : { ...entry, top_logprobs: others };
  });
  return { logprobs: entries };
}

function* lines(head: object, given: Answer, rendering: Rendering, likely: Likely): Generator<Frame> {
  const { fault } = rendering;
  const said = (spoken: object, more: object = {}): Frame => {
    const message = { role: 'assistant', content: '', ...spoken };
    return { kind: 'delta', text: `${JSON.stringify({ ...head, message, done: false, ...more })}\n` };
  };
  for (const thinking of given.reasoning) yield said({ thinking });
  for (const tokens of grouped(given.tokens, fault)) yield said({ content: tokens.join('') }, likely(tokens));
  if (given.calls.length > 0) yield said({ tool_calls: callsOf(given, rendering) });
  const last = { ...head, message: { role: 'assistant', content: '' }, ...ending(given, rendering) };
  yield { kind: 'finish', text: `${JSON.stringify(last)}\n` };
}

function messageOf(given: Answer, rendering: Rendering): JsonObject {
  return {
    role: 'assistant',
    content: given.text,
    ...(given.reasoning.length > 0 ? { thinking: given.reasoning.join('') } : {}),
    ...(given.calls.length > 0 ? { tool_calls: callsOf(given, rendering) } : {}),
  };
}

/** Arguments are an object here, and are sent whole. */
function callsOf({ calls }: Answer, { newId }: Rendering) {
  return calls.map(({ name, arguments: text }, index) => ({
    id: newId('call_'),
    function: { index, name, arguments: objectIn(parseJson(text)) },
  }));
}

function ending(given: Answer, { fault }: Rendering): JsonObject {
  const counts = {
    prompt_eval_count: given.promptTokens,
    prompt_eval_duration: given.promptTokens * NANOSECONDS_PER_TOKEN,
    eval_count: given.completionTokens,
    eval_duration: given.completionTokens * NANOSECONDS_PER_TOKEN,
  };
  return {
    done_reason: given.finish === 'length' ? 'length' : 'stop',
    done: true,
    total_duration: (given.promptTokens + given.completionTokens) * NANOSECONDS_PER_TOKEN,
    load_duration: NANOSECONDS_PER_TOKEN,
    ...(fault?.usage === false ? {} : counts),
  };
}

function details(): JsonObject {
  return {
    parent_model: '',
    format: 'gguf',
    family: ARCHITECTURE,
    families: [ARCHITECTURE],
    parameter_size: '1M',
    quantization_level: 'Q4_K_M',
  };
}

function timeOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
