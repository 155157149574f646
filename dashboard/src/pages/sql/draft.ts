/** The text in the editor, and the queries of this browser. */
import { signal } from '@preact/signals';
import { storedSignal } from '../../settings/stored.ts';
import { queriesIn, type RanQuery } from './query-list.ts';

/** Kept while the document is open. */
export const draft = signal('');

export const ranQueries = storedSignal<readonly RanQuery[]>('sql-queries', [], queriesIn);

/** Whether the Tab key inserts spaces in the editor; otherwise it moves the focus, as everywhere. */
export const tabInserts = storedSignal('sql-tab', false, (stored) =>
  typeof stored === 'boolean' ? stored : undefined,
);
