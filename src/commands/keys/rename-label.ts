/** Renames a label on every key that has it. */
import type { EventContext, Position } from '../../events/event.ts';
import type { Decided } from '../guard.ts';
import { changeKey } from './change-key.ts';
import type { KeyAdministrator } from './key-bounds.ts';

export interface RenameLabel {
  readonly from: string;
  readonly to: string;
  readonly context: EventContext;
  /** Present. */
  by(): KeyAdministrator;
}

/** Appends are synced together, so concurrent ones take hardly longer than one. */
const MAX_CONCURRENT = 64;

/**
 * Renames key by key: if the gateway stops half-way, the same command completes the rest.
 * @param ids of the keys that have the label
 * @returns how many keys were changed, and the position of the newest change
 * @throws Refusal
 */
export async function renameLabel(
  ids: readonly string[],
  { from, to, context, by }: RenameLabel,
  decided: Decided,
): Promise<{ readonly renamed: number; readonly position: Position | undefined }> {
  let renamed = 0;
  let newest: Position | undefined;
  const waiting = ids.values();
  const renameNext = async (): Promise<void> => {
    for (const id of waiting) {
      const { position } = await changeKey(() => ({ kind: 'rename label', id, from, to, context, by: by() }), decided);
      if (position === undefined) continue;
      renamed += 1;
      if (newest === undefined || position > newest) newest = position;
    }
  };
  await Promise.all(Array.from({ length: MAX_CONCURRENT }, renameNext));
  return { renamed, position: newest };
}
