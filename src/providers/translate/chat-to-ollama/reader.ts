/**
 * Reads an answer of Ollama's `/api/chat` as chat completions. A whole answer is read as a stream of a single, final
 * line.
 *
 * | Ollama | Chat |
 * |---|---|
 * | `message.content`, `message.thinking` | `content`, `reasoning_content` |
 * | `message.tool_calls` | tool calls, each whole in one chunk, with a generated id where there is none |
 * | `logprobs` | `logprobs.content`, with the members that Ollama omits when they are empty |
 * | `done_reason` | `finish_reason`: `length` stays, a call makes `tool_calls`, anything else `stop` |
 * | `prompt_eval_count`, `eval_count` | `usage` |
 * | `error` | the error, unchanged |
 */
import { isObject } from '../../../json/is-object.ts';
import { type ChatAnswerFacts, type ChatReader, completionOf } from '../chat-adapter.ts';
import { filled, type JsonObject, parsedObject, reportedCount, totalOf, unreadableCounts } from '../json.ts';

export class OllamaReader implements ChatReader {
  readonly #facts: ChatAnswerFacts;
  #begun = false;
  #ended = false;
  #calls = 0;
  readonly #callIds = new Set<string>();
  #model: string;
  /** Ollama's answers have no id. */
  readonly answerId = undefined;
  counted: JsonObject | null = null;

  constructor(facts: ChatAnswerFacts) {
    this.#facts = facts;
    this.#model = facts.model;
  }

  whole(answer: unknown): unknown {
    if (!isObject(answer)) return answer;
    if (!isObject(answer['message'])) {
      this.counted = usageOf(answer) ?? null;
      return answer;
    }
    return completionOf(this.#read({ ...answer, done: true }));
  }

  chunks(data: string): readonly JsonObject[] | undefined {
    if (data.trim() === '') return [];
    const line = parsedObject(data);
    return line === undefined ? undefined : this.#read(line);
  }

  get ended(): boolean {
    return this.#ended;
  }

  #read(line: JsonObject): JsonObject[] {
    const { message, error, logprobs, done, done_reason: reason } = line;
    if (error !== undefined && error !== null) return [{ error: isObject(error) ? error : { message: String(error) } }];
    if (this.#ended) return [];
    this.#model = filled(line['model']) ?? this.#model;
    const chunks: JsonObject[] = [];
    if (!this.#begun) {
      this.#begun = true;
      chunks.push(this.#says({ role: 'assistant', content: '' }));
    }
    if (isObject(message)) chunks.push(...this.#chunks(message, logprobs));
    if (done !== true) return chunks;
    this.#ended = true;
    const finish = reason === 'length' ? 'length' : this.#calls > 0 ? 'tool_calls' : 'stop';
    chunks.push(this.#chunk({ choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: finish }] }));
    const usage = usageOf(line);
    if (usage !== undefined) chunks.push(this.#chunk({ choices: [], usage }));
    return chunks;
  }

  #chunks(message: JsonObject, logprobs: unknown): JsonObject[] {
    const chunks: JsonObject[] = [];
    const thinking = filled(message['thinking']);
    if (thinking !== undefined) chunks.push(this.#says({ reasoning_content: thinking }));
    const content = filled(message['content']);
    const probabilities =
      Array.isArray(logprobs) && logprobs.length > 0 ? logprobs.filter(isObject).map(probability) : undefined;
    if (content !== undefined || probabilities !== undefined)
      chunks.push(this.#says({ content: content ?? '' }, probabilities));
    const calls = message['tool_calls'];
    if (Array.isArray(calls)) chunks.push(...calls.filter(isObject).map((call) => this.#call(call)));
    return chunks;
  }

  #call(call: JsonObject): JsonObject {
    const index = this.#calls;
    this.#calls += 1;
    const called = isObject(call['function']) ? call['function'] : {};
    const args = called['arguments'];
    const given = filled(call['id']);
    const id =
      given === undefined || this.#callIds.has(given)
        ? `call_${this.#facts.id.replace(/^chatcmpl-/, '')}_${index}`
        : given;
    this.#callIds.add(id);
    return this.#says({
      tool_calls: [
        {
          index,
          id,
          type: 'function',
          function: {
            name: filled(called['name']) ?? '',
            arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
          },
        },
      ],
    });
  }

  #says(delta: JsonObject, logprobs?: readonly unknown[]): JsonObject {
    const probabilities = logprobs === undefined ? null : { content: logprobs, refusal: null };
    return this.#chunk({ choices: [{ index: 0, delta, logprobs: probabilities, finish_reason: null }] });
  }

  #chunk(members: JsonObject): JsonObject {
    const { id, createdAt: created } = this.#facts;
    return { id, object: 'chat.completion.chunk', created, model: this.#model, ...members };
  }
}

function probability(entry: JsonObject): JsonObject {
  return { ...entry, bytes: entry['bytes'] ?? null, top_logprobs: entry['top_logprobs'] ?? [] };
}

function usageOf(line: JsonObject): JsonObject | undefined {
  const [prompt, completion] = [reportedCount(line['prompt_eval_count']), reportedCount(line['eval_count'])];
  if (prompt === null && completion === null) return undefined;
  return {
    ...{ prompt_tokens: prompt, completion_tokens: completion, total_tokens: totalOf(prompt, completion) },
    ...unreadableCounts(line, ['prompt_eval_count', 'eval_count']),
  };
}
