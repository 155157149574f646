/**
 * The input of a batch, checked before its provider gets it: each line is a request for a model that the caller may
 * use, at a price that its budgets can count.
 */
import { jsonProblem, unbounded } from '../../json/body-scan.ts';
import { isObject } from '../../json/is-object.ts';
import { membersIn } from '../../providers/json-members.ts';
import type { Provider } from '../../providers/provider.ts';
import type { BatchLineForecast } from '../admission/cost-forecast.ts';
import type { WorkPart } from '../model-request/deferred-work.ts';
import { READ_MEMBERS } from '../model-request/parsed-request.ts';
import type { Target } from '../model-request/target.ts';
import { contentPath, type FileQuestion, readLines } from '../provider-objects/batch-files.ts';
import { files } from '../provider-objects/tracked.ts';
import { type Refusal, refusals } from '../refusal.ts';

export interface BatchInput {
  readonly parts: readonly WorkPart[];
  /** Nano-dollars for all lines; undefined when a price is missing. */
  readonly cost: number | undefined;
  /** The cost that all lines together cannot exceed; undefined when one has no such bound, or it is not needed. */
  readonly bound: number | undefined;
  /** A model without a price. */
  readonly unpriced: string | undefined;
  /** Files that its lines name and that are to be checked. */
  readonly namedFiles: ReadonlySet<string>;
}

export interface BatchInputRules {
  /** @throws Refusal when the model may not be used */
  mayUse(provider: Provider, model: string): void;
  forecast(target: Target, endpoint: string, json: Record<string, unknown>, bytes: number): BatchLineForecast;
  /**
   * The files that a line names, which are to be checked.
   * @param beside the other members of the line
   * @throws Refusal, made by `refuse`, when the line contains a reference that is not allowed
   */
  namedFiles(
    json: Record<string, unknown>,
    beside: Record<string, unknown>,
    refuse: (why: string) => Refusal,
  ): Iterable<string>;
}

/** Maximum number of different models in one batch. */
const MAX_MODELS = 100;
const MAX_NAMED_FILES = 10_000;

/** The source of the lines. */
export interface BatchLines {
  /**
   * Calls `onLine` with each line, parsed and as bytes, in order.
   * @throws Refusal when the lines cannot be read; errors of `onLine`
   */
  each(onLine: (value: unknown, text: Buffer) => void): Promise<void> | void;
  /** The refusal of an invalid line. @param line from 1 on */
  refused(line: number, why: string): Refusal;
}

/** The lines of a file at a provider. */
export function linesOfFile(provider: Provider, fileId: string, question: FileQuestion): BatchLines {
  return {
    async each(onLine) {
      if (!(await readLines(provider, contentPath(fileId), question, onLine))) throw files.notFound(fileId);
    },
    refused(line, why) {
      const message = `Line ${line} of the batch's file cannot be admitted: ${why}.`;
      return refusals.invalidRequest(message, 'input_file_id', 'batch_line_invalid');
    },
  };
}

/** @throws Refusal when they cannot be read, or one of them is not allowed */
export async function readBatchInput(
  provider: Provider,
  lines: BatchLines,
  rules: BatchInputRules,
): Promise<BatchInput> {
  const parts = new Map<string, { -readonly [Name in keyof WorkPart]: WorkPart[Name] }>();
  const namedFiles = new Set<string>();
  let cost: number | undefined = 0;
  let bound: number | undefined = 0;
  let unpriced: string | undefined;
  let line = 0;
  await lines.each((value, text) => {
    line += 1;
    const refuse = (why: string): Refusal => lines.refused(line, why);
    const { url, body, model, beside } = requestIn(value, text, refuse);
    let part = parts.get(model);
    if (part === undefined) {
      rules.mayUse(provider, model);
      if (parts.size >= MAX_MODELS) throw refuse(`it names more than ${MAX_MODELS} models`);
      part = { model, answers: 0, inputTokens: 0, outputTokens: 0 };
      parts.set(model, part);
    }
    for (const id of rules.namedFiles(body, beside, refuse)) namedFiles.add(id);
    if (namedFiles.size > MAX_NAMED_FILES) throw refuse(`more than ${MAX_NAMED_FILES} files are named`);
    const one = rules.forecast({ provider, model }, url, body, text.length);
    part.answers += 1;
    part.inputTokens += one.inputTokens;
    part.outputTokens += one.outputTokens;
    if (one.cost === undefined) unpriced ??= model;
    cost = cost === undefined || one.cost === undefined ? undefined : cost + one.cost;
    bound = bound === undefined || one.bound === undefined ? undefined : bound + one.bound;
  });
  return { parts: [...parts.values()], cost, bound, unpriced, namedFiles };
}

interface LineRequest {
  readonly url: string;
  readonly body: Record<string, unknown>;
  readonly model: string;
  readonly beside: Record<string, unknown>;
}

/** The request in a line. A line that cannot be read is refused, because its cost cannot be counted. */
function requestIn(value: unknown, text: Buffer, refuse: (why: string) => Refusal): LineRequest {
  if (!isObject(value)) throw refuse('it is not a JSON object');
  const { body, ...beside } = value;
  const { url } = beside;
  if (typeof url !== 'string' || !isObject(body)) throw refuse("it has no 'url' and 'body'");
  const { model } = body;
  // Parsers differ in which of two members they take, and some ignore the case of names.
  const problem = nameProblem(text) ?? nameProblem(membersIn(text).find(({ name }) => name === 'body')?.value);
  if (problem !== undefined) throw refuse(problem);
  if (typeof model !== 'string' || model === '') throw refuse("its 'body' names no model");
  return { url, body, model, beside };
}

function nameProblem(object: Buffer | undefined): string | undefined {
  const problem = object === undefined ? undefined : jsonProblem(object, unbounded, true, READ_MEMBERS);
  if (problem?.kind === 'repeated') return `it has '${problem.name}' more than once`;
  return problem?.kind === 'ambiguous' ? `some providers take '${problem.name}' for another member` : undefined;
}
