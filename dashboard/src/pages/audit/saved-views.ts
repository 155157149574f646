/** The named filters that a person has saved in this browser. */
import { storedSignal } from '../../settings/stored.ts';
import { type SavedView, viewsIn } from './view-list.ts';

export const savedViews = storedSignal<readonly SavedView[]>('audit-views', [], viewsIn);
