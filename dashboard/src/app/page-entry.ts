/** What a page is to the rest of the program. Apart from the list of pages, which imports every page. */
import type { ComponentType } from 'preact';

export interface PageProps {
  /** The part of the path after the page's own, decoded: the id in `/exchange/<id>`; '' without one. */
  readonly id: string;
}

/** The groups of the navigation, in their order. */
export const groups = ['Requests', 'Administration', 'System'] as const;
export type Group = (typeof groups)[number];

export interface PageEntry {
  readonly name: string;
  readonly title: string;
  readonly path: string;
  /** `g` and this letter show the page. */
  readonly letter?: string;
  /** The group of the navigation; undefined: not in the navigation. */
  readonly group?: Group;
  /** Shows the state at a past time (`as_of` of the address). */
  readonly asOf?: boolean;
  /** Not shown to administrators of a subtree. */
  readonly globalOnly?: boolean;
  readonly load: () => Promise<{ readonly default: ComponentType<PageProps> }>;
}
