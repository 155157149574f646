/** The cost of a batch: per model, the sum of the usage that its provider reports in the result files. */
import { isObject } from '../../json/is-object.ts';
import { isCounted, readUsage, type TokenUsage, unknownUsage } from '../model-request/usage.ts';
import { answerIn, type ResultFile } from '../provider-objects/batch-files.ts';
import type { OpenWork } from './open-work.ts';
import { spentUnknown, type WorkSpent } from './settle-work.ts';

/** Reads a file line by line. @returns false when the file does not exist. @throws Refusal */
export type ReadLines = (file: ResultFile, onLine: (value: unknown) => void) => Promise<boolean>;

type Count = Exclude<keyof TokenUsage, 'source' | 'raw' | 'inputSeconds'>;
const counts = Object.keys(unknownUsage).filter((name): name is Count => name !== 'source' && name !== 'raw');

interface Sum {
  answers: number;
  usage: TokenUsage;
}

/**
 * An answer without usage is charged by its estimate. So is every answer of a batch whose output is gone.
 * @throws Refusal when the provider cannot be reached now
 */
export async function batchSpent(
  work: OpenWork,
  files: readonly ResultFile[],
  readLines: ReadLines,
): Promise<readonly WorkSpent[]> {
  const sums = new Map<string, Sum>();
  const unreported = new Map<string, number>();
  const onLine = (line: unknown): void => {
    const response = answerIn(line);
    if (!isObject(response?.body)) return;
    const { model: reportedModel, usage: raw } = response.body;
    const model = requestedModelIn(work, typeof reportedModel === 'string' ? reportedModel : '');
    const usage = readUsage(raw);
    if (isCounted(usage)) add(sums, model, usage);
    else if (Number(response.status) < 400) unreported.set(model, (unreported.get(model) ?? 0) + 1);
  };
  let isOutputGone = false;
  for (const file of files) if (!(await readLines(file, onLine))) isOutputGone ||= file.isOutput;
  if (isOutputGone) return spentUnknown(work);
  return [
    ...[...sums].map(([model, { answers, usage }]) => ({ model, usage, answers })),
    ...[...unreported].map(([model, answers]) => estimated(work, model, answers)),
  ];
}

function add(sums: Map<string, Sum>, model: string, usage: TokenUsage): void {
  const sum = sums.get(model);
  // Provider-specific usage besides the counts cannot be summed.
  if (sum === undefined) sums.set(model, { answers: 1, usage: { ...usage, raw: null } });
  else {
    const total = Object.fromEntries(counts.map((name) => [name, plus(sum.usage[name], usage[name])]));
    sums.set(model, { answers: sum.answers + 1, usage: { ...sum.usage, ...total } });
  }
}

function plus(one: number | null, other: number | null): number | null {
  return one === null && other === null ? null : (one ?? 0) + (other ?? 0);
}

/** Answers name a version, such as `gpt-4o-2024-08-06`; prices are those of the requested model. */
function requestedModelIn({ parts = [] }: OpenWork, reportedModel: string): string {
  const [only] = parts;
  if (parts.length === 1 && only !== undefined) return only.model;
  const matchingModels = parts
    .map(({ model }) => model)
    .filter((model) => reportedModel === model || reportedModel.startsWith(`${model}-`));
  return matchingModels.sort((one, other) => other.length - one.length)[0] ?? reportedModel;
}

function estimated({ parts = [] }: OpenWork, model: string, answers: number): WorkSpent {
  const part = parts.find((one) => one.model === model);
  if (part === undefined) return { model, usage: unknownUsage, answers };
  const share = Math.min(1, answers / part.answers);
  const inputTokens = Math.ceil(part.inputTokens * share);
  const outputTokens = Math.ceil(part.outputTokens * share);
  return { model, usage: unknownUsage, answers, estimate: { inputTokens, outputTokens } };
}
