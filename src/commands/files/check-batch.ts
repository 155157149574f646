/** Whether a batch may be created: its input is checked against the caller's models, visible objects and budgets. */

import { isNamedOnly } from '../../providers/translate/responses-to-chat/item-reference.ts';
import type { PlanInput } from '../exchange/dialect.ts';
import type { WorkPart } from '../model-request/deferred-work.ts';
import { referencesIn } from '../model-request/references.ts';
import { files } from '../provider-objects/tracked.ts';
import { type Refusal, refusals } from '../refusal.ts';
import { seesEverything } from '../visibility.ts';
import { type BatchLines, linesOfFile, readBatchInput } from './batch-input.ts';
import { type ObjectDependencies, remembered } from './stored-objects.ts';

/** Milliseconds allowed for reading a large file. */
const READING_MS = 5 * 60_000;

/**
 * Reserves the expected cost of a whole file. The file is not read when no check applies to it.
 * @returns the work per model; undefined when the file was not read
 * @throws Refusal
 */
export async function checkBatchFile(
  fileId: string,
  input: CheckedInput,
  deps: ObjectDependencies,
): Promise<readonly WorkPart[] | undefined> {
  const { target, sight, ticket, record } = input;
  const { provider } = target;
  if (deps.providers.mayUseAll(provider) && seesEverything(sight) && !ticket.isMetered) return undefined;
  const question = { requestId: record.context.requestId ?? record.id, signal: AbortSignal.timeout(READING_MS) };
  return checkBatchLines(linesOfFile(provider, fileId, question), input, deps);
}

type CheckedInput = Pick<PlanInput, 'target' | 'sight' | 'ticket' | 'record'>;

/** The same checks for lines, which are always read. */
export async function checkBatchLines(
  lines: BatchLines,
  { target: { provider }, sight, ticket }: CheckedInput,
  { providers, tracked, forecast }: ObjectDependencies,
): Promise<readonly WorkPart[]> {
  const isLimited = !seesEverything(sight);
  const rules = { mayUse: providers.checkModel, forecast, namedFiles: isLimited ? filesNamed : () => [] };
  const { parts, cost, bound, unpriced, namedFiles } = await readBatchInput(provider, lines, rules);
  for (const id of namedFiles) await remembered(files, id, sight, { tracked });
  if (ticket.isMetered) {
    if (cost === undefined) throw refusals.priceUnknown(`${provider.name}/${unpriced}`);
    ticket.reserve(cost, bound);
  }
  return parts;
}

/**
 * The files that a line names. Refuses references to other objects that the provider stores: it does not know which
 * caller created them.
 */
function filesNamed(
  json: Readonly<Record<string, unknown>>,
  beside: Readonly<Record<string, unknown>>,
  refuse: (why: string) => Refusal,
): string[] {
  const named = ['previous_response_id', 'conversation'].find((name) => (json[name] ?? null) !== null);
  if (named !== undefined) throw refuse(`a batch cannot continue from '${named}'`);
  if (Array.isArray(json.input) && json.input.some(isNamedOnly)) {
    throw refuse('a batch cannot refer to items');
  }
  const references = [...referencesIn(json), ...referencesIn(beside)];
  const other = references.find(({ kind }) => kind !== 'file');
  if (other !== undefined) throw refuse(`'${other.param}' names an object stored at the provider`);
  return references.map(({ id }) => id);
}
