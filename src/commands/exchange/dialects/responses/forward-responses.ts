/**
 * `POST /v1/responses/input_tokens` and `/compact`: the provider counts or compacts the body of a new response.
 * References in the body are resolved as for the response itself.
 */
import type { EventLog } from '../../../../events/log.ts';
import type { FindItem, ResponseArchive } from '../../../responses/archive.ts';
import type { Sight } from '../../../visibility.ts';
import type { PlanInput } from '../../dialect.ts';
import { loadEarlierTurns, turnsFor } from './earlier-turns.ts';
import { nativeChanges } from './responses-dialect.ts';

export interface ResponsesBodyOptions {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** Finds the stored item that a caller refers to by id. */
  readonly findItem: (sight: Sight) => FindItem;
}

/** @throws Refusal for earlier turns or items that are not found or not visible to the caller */
export async function responsesBodyChanges(
  input: PlanInput,
  { archive, log, findItem }: ResponsesBodyOptions,
): Promise<Record<string, string | undefined>> {
  const history = await loadEarlierTurns(input, { archive, log });
  const turns = await turnsFor({ ...input, history }, { archive });
  return nativeChanges(input, turns, findItem(input.sight));
}
