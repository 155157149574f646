/** The pages, in the order of the navigation. Each is loaded when it is first shown. */
import type { PageEntry } from './page-entry.ts';

export const pages: readonly PageEntry[] = [
  {
    ...{ name: 'overview', title: 'Overview', path: '/', letter: 'o', group: 'Requests' },
    load: () => import('../pages/overview/page.tsx'),
  },
  {
    ...{ name: 'live', title: 'Live', path: '/live', letter: 'l', group: 'Requests' },
    load: () => import('../pages/live/page.tsx'),
  },
  {
    ...{ name: 'audit', title: 'Audit', path: '/audit', letter: 'a', group: 'Requests' },
    load: () => import('../pages/audit/page.tsx'),
  },
  {
    ...{ name: 'sessions', title: 'Sessions', path: '/sessions', letter: 's', group: 'Requests' },
    load: () => import('../pages/sessions/page.tsx'),
  },
  {
    ...{ name: 'usage', title: 'Usage', path: '/usage', letter: 'u', group: 'Requests' },
    load: () => import('../pages/usage/page.tsx'),
  },
  {
    ...{ name: 'keys', title: 'Users and keys', path: '/keys', letter: 'k', group: 'Administration' },
    ...{ asOf: true },
    load: () => import('../pages/keys/page.tsx'),
  },
  {
    ...{ name: 'budgets', title: 'Budgets and limits', path: '/budgets', letter: 'b', group: 'Administration' },
    ...{ asOf: true },
    load: () => import('../pages/budgets/page.tsx'),
  },
  {
    ...{ name: 'models', title: 'Models and providers', path: '/models', letter: 'm', group: 'Administration' },
    ...{ asOf: true },
    load: () => import('../pages/models/page.tsx'),
  },
  {
    ...{
      name: 'workflows',
      title: 'Workflows and guardrails',
      path: '/workflows',
      letter: 'w',
      group: 'Administration',
    },
    ...{ asOf: true, globalOnly: true },
    load: () => import('../pages/workflows/page.tsx'),
  },
  {
    ...{ name: 'plugins', title: 'Plugins', path: '/plugins', letter: 'p', group: 'Administration' },
    ...{ globalOnly: true },
    load: () => import('../pages/plugins/page.tsx'),
  },
  {
    ...{ name: 'mcp', title: 'MCP servers', path: '/mcp', letter: 't', group: 'Administration' },
    ...{ asOf: true, globalOnly: true },
    load: () => import('../pages/mcp/page.tsx'),
  },
  {
    ...{ name: 'cache', title: 'Cache', path: '/cache', letter: 'e', group: 'Administration' },
    load: () => import('../pages/cache/page.tsx'),
  },
  {
    ...{ name: 'history', title: 'History', path: '/history', letter: 'h', group: 'Administration' },
    load: () => import('../pages/history/page.tsx'),
  },
  {
    ...{ name: 'sql', title: 'SQL', path: '/sql', letter: 'q', group: 'System' },
    load: () => import('../pages/sql/page.tsx'),
  },
  {
    ...{ name: 'log', title: 'Log and gateways', path: '/log', letter: 'n', group: 'System' },
    ...{ globalOnly: true },
    load: () => import('../pages/log/page.tsx'),
  },
  {
    ...{ name: 'settings', title: 'Settings and About', path: '/settings', letter: 'c', group: 'System' },
    ...{ globalOnly: true },
    load: () => import('../pages/settings/page.tsx'),
  },
  {
    ...{ name: 'exchange', title: 'Exchange', path: '/exchange' },
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
