/**
 * `POST /v1/responses/input_tokens` and `/compact`: of the body of a new response, counted or made shorter by the
 * provider. What the body refers to is put to it as it would be for the response itself.
 */
import type { EventLog } from '../../../../events/log.ts';
import type { ResponseArchive } from '../../../responses/archive.ts';
import type { FindItem } from '../../../responses/found-item.ts';
import type { Sight } from '../../../visibility.ts';
import type { PlanInput } from '../../dialect.ts';
import { loadEarlierTurns, turnsFor } from './earlier-turns.ts';
import { nativeChanges } from './responses-dialect.ts';

export interface ResponsesBodyOptions {
  readonly archive: ResponseArchive;
  readonly log: EventLog;
  /** What a caller may name in place of an item. */
  readonly findItem: (sight: Sight) => FindItem;
}

/** @throws Refusal for earlier turns or items that are not found, or not to be seen by the caller */
export async function responsesBodyChanges(
  input: PlanInput,
  { archive, log, findItem }: ResponsesBodyOptions,
): Promise<Record<string, string | undefined>> {
  const history = await loadEarlierTurns(input, { archive, log });
  const turns = await turnsFor({ ...input, history }, { archive });
  return nativeChanges(input, turns, findItem(input.sight));
}
