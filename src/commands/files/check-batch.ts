/** Whether a batch may be made at all: its input is held against the caller's models, sight and budgets. */
import type { PlanInput } from '../exchange/dialect.ts';
import type { WorkPart } from '../exchange/relay.ts';
import { refusals } from '../refusal.ts';
import { isNamedOnly } from '../responses/item-references.ts';
import { seesEverything } from '../visibility.ts';
import { badLine, readBatchInput } from './batch-input.ts';
import { filesIn } from './named-files.ts';
import { providerObjectIn } from './provider-objects.ts';
import { type ObjectDependencies, remembered } from './stored-objects.ts';
import { files } from './tracked.ts';

/** What reading a large file may take. */
const READING_MS = 5 * 60_000;

/**
 * Reserves what all of it is likely to cost. The file is not read where nothing is held against it.
 * @returns what is asked of each model; undefined when the file was not read
 * @throws Refusal
 */
export async function checkBatch(
  fileId: string,
  { target: { provider }, sight, ticket, record }: Pick<PlanInput, 'target' | 'sight' | 'ticket' | 'record'>,
  { providers, tracked, forecast }: ObjectDependencies,
): Promise<readonly WorkPart[] | undefined> {
  const isRestricted = !providers.mayUseAll(provider);
  const isLimited = !seesEverything(sight);
  if (!isRestricted && !isLimited && !ticket.isMetered) return undefined;
  const rules = {
    mayUse: providers.checkModel,
    forecast,
    filesIn,
    check: isLimited ? nothingStored : () => {},
  };
  const question = { requestId: record.context.requestId ?? record.id, signal: AbortSignal.timeout(READING_MS) };
  const { parts, cost, unpriced, namedFiles } = await readBatchInput(provider, fileId, rules, question);
  if (isLimited) for (const id of namedFiles) await remembered(files, id, sight, { tracked });
  if (ticket.isMetered) {
    if (cost === undefined) throw refusals.priceUnknown(`${provider.name}/${unpriced}`);
    ticket.reserve(cost);
  }
  return parts;
}

/** What the provider keeps belongs to anybody: it cannot tell who made it. */
function nothingStored(json: Readonly<Record<string, unknown>>, line: number): void {
  const named = ['previous_response_id', 'conversation'].find((name) => (json[name] ?? null) !== null);
  if (named !== undefined) throw badLine(line, `a batch cannot go on from what '${named}' names`);
  if (Array.isArray(json.input) && json.input.some(isNamedOnly)) {
    throw badLine(line, 'a batch cannot refer to items');
  }
  const stored = providerObjectIn(json);
  if (stored !== undefined) throw badLine(line, `'${stored}' names what is stored at the provider`);
}
