/** Which parts of a conversation guardrails changed: from the comparison of the request before and after them. */
import type { JsonChange } from '../diff/compare-json.ts';
import type { JsonPath } from '../json/json-path.ts';
import type { PlacedPart } from './turn.ts';

/** The changes within a part of the changed request, and those that contain it. */
export function changesOfPart({ path }: PlacedPart, changes: readonly JsonChange[]): JsonChange[] {
  if (path === undefined) return [];
  return changes.filter(
    (change) => change.kind !== 'removed' && (startsWith(change.path, path) || startsWith(path, change.path)),
  );
}

/** What is in the earlier request only: no part of the changed request shows it. */
export function removedValues(changes: readonly JsonChange[]): JsonChange[] {
  return changes.filter(({ kind }) => kind === 'removed');
}

function startsWith(path: JsonPath, beginning: JsonPath): boolean {
  return beginning.length <= path.length && beginning.every((step, index) => path[index] === step);
}
