/** What the history of administration is about, and the page that shows each thing. Pure. */

interface SubjectPage {
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
}

export interface SubjectKind {
  readonly name: string;
  readonly title: string;
  /** The page of one thing of the kind. */
  readonly page: (id: string) => SubjectPage;
  /** Whether that page shows a past state. */
  readonly hasPast: boolean;
  /** Whether an administrator of a subtree may read it: keys and paths within the subtree. */
  readonly isScoped?: boolean;
}

const part = encodeURIComponent;

const settingsPages: Readonly<Record<string, SubjectPage>> = {
  budgets: { path: '/budgets', query: { tab: 'settings' } },
  tagging: { path: '/settings' },
  cache: { path: '/cache' },
};

/** In the order of the choice. The names are those of the API. */
export const subjectKinds: readonly SubjectKind[] = [
  {
    ...{ name: 'key', title: 'Key', hasPast: true, isScoped: true },
    page: (id) => ({ path: `/keys/${part(id)}` }),
  },
  {
    ...{ name: 'user', title: 'User path', hasPast: true, isScoped: true },
    page: (id) => ({ path: '/keys', query: { path: id } }),
  },
  {
    ...{ name: 'budget', title: 'Budget', hasPast: true, isScoped: true },
    page: (id) => ({ path: '/budgets', query: { q: id.replace(/^label:/, '') } }),
  },
  {
    ...{ name: 'rate-limit', title: 'Rate limit', hasPast: true, isScoped: true },
    page: (id) => ({ path: '/budgets', query: { tab: 'limits', q: id.replace(/^\w+:/, '') } }),
  },
  {
    ...{ name: 'virtual-model', title: 'Virtual model', hasPast: true },
    page: () => ({ path: '/models', query: { tab: 'virtual' } }),
  },
  {
    ...{ name: 'price', title: 'Price', hasPast: true },
    page: (id) => ({ path: '/models', query: { tab: 'prices', q: id } }),
  },
  {
    ...{ name: 'credential', title: 'Provider set up by the API', hasPast: false },
    page: () => ({ path: '/models', query: { tab: 'providers' } }),
  },
  {
    ...{ name: 'provider', title: 'Provider', hasPast: false },
    page: () => ({ path: '/models', query: { tab: 'providers' } }),
  },
  {
    ...{ name: 'mcp-server', title: 'MCP server', hasPast: true },
    page: (id) => ({ path: `/mcp/${part(id)}` }),
  },
  {
    ...{ name: 'mcp-tools', title: 'Tools of an MCP server', hasPast: false },
    page: (id) => ({ path: `/mcp/${part(id)}` }),
  },
  {
    ...{ name: 'workflow', title: 'Workflow', hasPast: true },
    page: () => ({ path: '/workflows' }),
  },
  {
    ...{ name: 'guardrail', title: 'Guardrail', hasPast: true },
    page: (id) => ({ path: '/workflows', query: { tab: 'guardrails', guardrail: id } }),
  },
  {
    ...{ name: 'settings', title: 'Settings', hasPast: false },
    page: (id) => settingsPages[id] ?? { path: '/settings' },
  },
  {
    ...{ name: 'view', title: 'Read models', hasPast: false },
    page: () => ({ path: '/log', query: { tab: 'projections' } }),
  },
  {
    ...{ name: 'audit', title: 'Reads and queries', hasPast: false },
    page: () => ({ path: '/history', query: { subject: 'audit:reads' } }),
  },
];

export interface Subject {
  readonly kind: SubjectKind;
  readonly id: string;
}

/** @returns undefined for anything but `<kind>:<id>` */
export function subjectOf(text: string): Subject | undefined {
  const colon = text.indexOf(':');
  const kind = subjectKinds.find(({ name }) => name === text.slice(0, colon));
  const id = text.slice(colon + 1);
  return kind === undefined || id === '' ? undefined : { kind, id };
}
