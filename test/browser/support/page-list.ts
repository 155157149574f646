/** The pages of the dashboard, with the address of each in the seeded history. */
import type { HistoryFacts } from './history/build-history.ts';

export interface DashboardPage {
  readonly name: string;
  readonly address: (facts: HistoryFacts) => string;
}

export const dashboardPages: readonly DashboardPage[] = [
  { name: 'overview', address: () => '/' },
  { name: 'live', address: () => '/live' },
  { name: 'audit', address: () => '/audit' },
  { name: 'sessions', address: () => '/sessions' },
  { name: 'usage', address: () => '/usage' },
  { name: 'keys', address: () => '/keys' },
  { name: 'budgets', address: () => '/budgets' },
  { name: 'models', address: () => '/models' },
  { name: 'workflows', address: () => '/workflows' },
  { name: 'plugins', address: () => '/plugins' },
  { name: 'mcp', address: () => '/mcp' },
  { name: 'cache', address: () => '/cache' },
  { name: 'history', address: () => '/history' },
  { name: 'sql', address: () => '/sql' },
  { name: 'log', address: () => '/log' },
  { name: 'settings', address: () => '/settings' },
  { name: 'exchange', address: ({ shown }) => `/exchange/${shown.changedYesterday}` },
];
