/** The pages, in the order of the navigation. Each is loaded when it is first shown. */
import type { ComponentType } from 'preact';

export interface PageProps {
  /** The part of the path after the page's own, decoded: the id in `/exchange/<id>`; '' without one. */
  readonly id: string;
}

export interface PageEntry {
  readonly name: string;
  readonly title: string;
  readonly path: string;
  /** `g` and this letter show the page. */
  readonly letter?: string;
  /** False: not in the navigation. */
  readonly inNavigation: boolean;
  /** Not shown to administrators of a subtree. */
  readonly globalOnly?: boolean;
  readonly load: () => Promise<{ readonly default: ComponentType<PageProps> }>;
}

export const pages: readonly PageEntry[] = [
  {
    ...{ name: 'overview', title: 'Overview', path: '/', letter: 'o', inNavigation: true },
    load: () => import('../pages/overview/page.tsx'),
  },
  {
    ...{ name: 'live', title: 'Live', path: '/live', letter: 'l', inNavigation: true },
    load: () => import('../pages/live/page.tsx'),
  },
  {
    ...{ name: 'audit', title: 'Audit', path: '/audit', letter: 'a', inNavigation: true },
    load: () => import('../pages/audit/page.tsx'),
  },
  {
    ...{ name: 'sessions', title: 'Sessions', path: '/sessions', letter: 's', inNavigation: true },
    load: () => import('../pages/sessions/page.tsx'),
  },
  {
    ...{ name: 'usage', title: 'Usage', path: '/usage', letter: 'u', inNavigation: true },
    load: () => import('../pages/usage/page.tsx'),
  },
  {
    ...{ name: 'exchange', title: 'Exchange', path: '/exchange', inNavigation: false },
    load: () => import('../pages/exchange/page.tsx'),
  },
];

export interface ShownPage {
  readonly page: PageEntry;
  readonly id: string;
}

/** @returns undefined for an address without a page */
export function pageOf(path: string): ShownPage | undefined {
  for (const page of pages) {
    if (path === page.path) return { page, id: '' };
    if (page.path !== '/' && path.startsWith(`${page.path}/`)) {
      return { page, id: decoded(path.slice(page.path.length + 1)) };
    }
  }
  return undefined;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
