/** Messages between the gateway's thread and the thread that finds streams. */
import type { StreamName } from '../../event.ts';
import type { Failure } from '../archive/thread-messages.ts';
import type { FoundParts, SearchedPlaces } from './stream-finder.ts';

/** The start data of the thread. */
export interface FinderSettings {
  readonly dir: string;
  readonly mark: number;
}

/** Each has one answer with its id. */
export type FinderRequest =
  | {
      readonly kind: 'last';
      readonly id: number;
      readonly streams: readonly StreamName[];
      readonly places: SearchedPlaces;
    }
  | {
      readonly kind: 'parts';
      readonly id: number;
      readonly stream: StreamName;
      readonly places: SearchedPlaces;
    }
  | { readonly kind: 'release'; readonly id: number };

export type FinderAnswer =
  | { readonly kind: 'last'; readonly id: number; readonly found: ReadonlyMap<StreamName, number> }
  | { readonly kind: 'parts'; readonly id: number; readonly found: FoundParts }
  | { readonly kind: 'released'; readonly id: number }
  | { readonly kind: 'failed'; readonly id: number; readonly failure: Failure };
