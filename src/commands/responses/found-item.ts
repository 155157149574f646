/** An item that a request refers to by its id. */
import type { JsonObject } from '../../providers/translate/json.ts';
import type { RecordedPlaceholder } from '../guardrails/placeholders.ts';

export interface FoundItem {
  readonly item: JsonObject;
  /** The provider that has the item under the same id; undefined when no provider has it. */
  readonly provider: string | undefined;
  /** Of the response or the conversation that holds the item. */
  placeholders(): readonly RecordedPlaceholder[];
}

/** Undefined when nothing that the caller may see contains such an item. */
export type FindItem = (id: string) => Promise<FoundItem | undefined>;
