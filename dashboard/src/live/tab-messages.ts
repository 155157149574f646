/** What tabs with the same stream post to each other. No message contains the key. */
import type { EventRate } from './event-rate.ts';
import type { ConnectionStatus } from './follow-log.ts';
import type { LogPosition } from './live-event.ts';
import type { LiveRow } from './live-row.ts';
import type { Changes, Gap } from './live-state.ts';

/** What is certain once all messages up to this one are applied. */
export interface Reached {
  readonly position: LogPosition | undefined;
  readonly rate: EventRate;
  readonly lastAt: number;
  readonly clockAhead: number;
  readonly status: ConnectionStatus;
  readonly isLeaderVisible: boolean;
}

export type TabMessage =
  /** A new tab, or one that missed a message: the leader posts everything. */
  | { readonly kind: 'hello' }
  /** To the leader: connect now. */
  | { readonly kind: 'retry' }
  | {
      readonly kind: 'changes';
      /** Increases with each leader: about the time when it became one. */
      readonly term: number;
      /** Where the leader resumed: every change after it is posted. */
      readonly since: LogPosition | undefined;
      /** From 1, increases by one with each message of a leader. */
      readonly number: number;
      /** Part of everything that the leader has; tabs that have it already apply it again. */
      readonly snapshot?: 'first' | 'middle' | 'last' | 'only';
      readonly rows: readonly LiveRow[];
      readonly gaps?: readonly Gap[];
      /** With the last message of a change. */
      readonly reached?: Reached;
    };

export type ChangesMessage = Extract<TabMessage, { kind: 'changes' }>;
export type UnnumberedChanges = Omit<ChangesMessage, 'term' | 'number' | 'since'>;

/** Rows in one message: it is applied in about a millisecond. */
const MAX_ROWS = 200;

/** Changes divided into messages of bounded size. At least one. */
export function changesMessages({ rows, gaps }: Changes, reached: Reached, isSnapshot: boolean): UnnumberedChanges[] {
  const count = Math.max(1, Math.ceil(rows.length / MAX_ROWS));
  return Array.from({ length: count }, (_, index) => {
    const isFirst = index === 0;
    const isLast = index === count - 1;
    const snapshot = isFirst && isLast ? 'only' : isFirst ? 'first' : isLast ? 'last' : 'middle';
    return {
      kind: 'changes',
      ...(isSnapshot ? { snapshot } : {}),
      rows: rows.slice(index * MAX_ROWS, (index + 1) * MAX_ROWS),
      ...(isFirst && gaps !== undefined ? { gaps } : {}),
      ...(isLast ? { reached } : {}),
    };
  });
}
