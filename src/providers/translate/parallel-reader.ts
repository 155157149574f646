/** Reads the answers of parallel calls (see parallel-calls.ts) as one completion with a choice for each. */
import { isObject } from '../../json/is-object.ts';
import type { ChatAnswerFacts, ChatReader } from './chat-adapter.ts';
import { filled, type JsonObject } from './json.ts';

interface Call {
  readonly reader: ChatReader;
  usage: JsonObject | undefined;
  /** Its choice has a finish reason. */
  isFinished: boolean;
  /** Nothing of it follows. */
  hasEnded: boolean;
}

export class ParallelReader implements ChatReader {
  readonly #id: string;
  readonly #calls: readonly Call[];
  /** The members of the last chunk, for the one with the usage. */
  #last: JsonObject = {};

  /** @param readerOf a new reader of the provider's dialect */
  constructor(facts: ChatAnswerFacts, calls: number, readerOf: (facts: ChatAnswerFacts) => ChatReader) {
    this.#id = facts.id;
    this.#calls = Array.from({ length: calls }, (_, index) => ({
      // Readers derive ids of tool calls from it.
      reader: readerOf({ ...facts, id: `${facts.id}-${index}` }),
      usage: undefined,
      isFinished: false,
      hasEnded: false,
    }));
  }

  whole(answer: unknown): unknown {
    const given: unknown[] = isObject(answer) && Array.isArray(answer['calls']) ? answer['calls'] : [];
    if (given.length !== this.#calls.length) return answer;
    const completions = this.#calls
      .map(({ reader }, index) => reader.whole(given[index]))
      .filter((one) => isObject(one));
    const choices = completions.flatMap((completion, index) => withIndex(completion['choices'], index));
    const reports = completions.map(({ usage }) => usage).filter(isObject);
    const isWhole = choices.length === given.length;
    const usage = isWhole && reports.length < given.length ? undefined : summed(reports);
    return isWhole ? { ...completions[0], id: this.#id, choices, usage } : { usage };
  }

  chunks(data: string, of = ''): readonly JsonObject[] | undefined {
    const index = Number.parseInt(of, 10);
    const call = this.#calls[index];
    const chunks = call?.reader.chunks(data);
    if (call === undefined || chunks === undefined) return undefined;
    const written: JsonObject[] = [];
    for (const { usage, ...chunk } of chunks) {
      if (isObject(usage)) call.usage = usage;
      if (!Array.isArray(chunk['choices'])) return [chunk];
      const choices = withIndex(chunk['choices'], index);
      call.isFinished ||= choices.some((choice) => filled(choice['finish_reason']) !== undefined);
      if (choices.length > 0) written.push({ ...chunk, id: this.#id, choices });
      this.#last = chunk;
    }
    return call.reader.ended ? [...written, ...this.#end(call)] : written;
  }

  endOfCall(of = ''): readonly JsonObject[] | 'cut' {
    if (!of.endsWith(' ended')) return [];
    const call = this.#calls[Number.parseInt(of, 10)];
    return call?.isFinished ? this.#end(call) : 'cut';
  }

  get ended(): boolean {
    return this.#calls.every(({ hasEnded }) => hasEnded);
  }

  get answerId(): string | undefined {
    return this.#calls[0]?.reader.answerId;
  }

  /** The chunk with the usage of all calls, after the last of them. */
  #end(call: Call): JsonObject[] {
    if (call.hasEnded) return [];
    call.hasEnded = true;
    const reports = this.#calls.map(({ usage }) => usage).filter((usage) => usage !== undefined);
    if (!this.ended || reports.length < this.#calls.length) return [];
    return [{ ...this.#last, id: this.#id, choices: [], usage: summed(reports) }];
  }
}

function withIndex(choices: unknown, index: number): JsonObject[] {
  return Array.isArray(choices) ? choices.filter(isObject).map((choice) => ({ ...choice, index })) : [];
}

/** A count that is null in one report is not known for all. */
function summed(reports: readonly JsonObject[]): JsonObject | undefined {
  return reports.length === 0 ? undefined : reports.reduce(sumOf);
}

function sumOf(one: JsonObject, other: JsonObject): JsonObject {
  const sum: Record<string, unknown> = { ...other };
  for (const [name, value] of Object.entries(one)) {
    const added = other[name];
    if (added === undefined) sum[name] = value;
    else if (typeof value === 'number' && typeof added === 'number') sum[name] = value + added;
    else sum[name] = isObject(value) && isObject(added) ? sumOf(value, added) : null;
  }
  return sum;
}
