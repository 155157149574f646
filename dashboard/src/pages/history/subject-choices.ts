/** The things of a kind that exist now, as suggestions for a filter. Removed ones have a history, too. */
import { access, isGlobal } from '../../api/access.ts';
import { getAnswer } from '../../api/client.ts';
import { type Loaded, useLoaded } from '../../api/use-answer.ts';
import { subjectKinds } from './subjects.ts';

export interface SubjectChoice {
  readonly id: string;
  /** Beside the id, where that is not a name. */
  readonly title?: string;
}

type Read = (signal: AbortSignal) => Promise<readonly SubjectChoice[]>;

const reads: Readonly<Record<string, Read>> = {
  key: async (signal) => (await getAnswer('/admin/auth-keys', { signal })).map(({ id, name }) => ({ id, title: name })),
  user: async (signal) =>
    (await getAnswer('/admin/users', { signal })).users.map(({ user_path }) => ({ id: user_path })),
  budget: async (signal) =>
    distinct(
      (await getAnswer('/admin/budgets', { signal })).budgets.map(({ scope, subject }) =>
        scope === 'label' ? `label:${subject}` : subject,
      ),
    ),
  'rate-limit': async (signal) =>
    distinct(
      (await getAnswer('/admin/rate-limits', { signal })).rate_limits.map(
        ({ scope, subject }) => `${scope}:${subject}`,
      ),
    ),
  'virtual-model': async (signal) => (await getAnswer('/admin/virtual-models', { signal })).map(idOf('source')),
  price: async (signal) => (await getAnswer('/admin/model-pricing-overrides', { signal })).map(idOf('selector')),
  credential: async (signal) => (await getAnswer('/admin/provider-credentials', { signal })).map(idOf('name')),
  'mcp-server': async (signal) => (await getAnswer('/admin/mcp-servers', { signal })).map(idOf('slug')),
  'mcp-tools': async (signal) => (await getAnswer('/admin/mcp-servers', { signal })).map(idOf('slug')),
  provider: async (signal) => (await getAnswer('/admin/providers/status', { signal })).providers.map(idOf('name')),
  guardrail: async (signal) => (await getAnswer('/admin/guardrails', { signal })).map(idOf('name')),
  workflow: async (signal) =>
    (await getAnswer('/admin/workflows', { signal })).map(({ scope_type, scope, scope_display }) => ({
      id: [scope_type, scope.scope_provider_name, scope.scope_model, scope.scope_user_path].filter(Boolean).join(':'),
      title: scope_display,
    })),
  settings: async () => [{ id: 'budgets' }, { id: 'tagging' }, { id: 'cache' }],
  view: async () => [{ id: 'skipped' }, { id: 'rebuilds' }],
  audit: async () => [{ id: 'reads' }],
};

/** @param kind undefined: nothing is read */
export function useSubjectChoices(kind: string | undefined): Loaded<readonly SubjectChoice[]> {
  const read = kind === undefined ? undefined : reads[kind];
  return useLoaded(read ?? (async () => []), `subjects ${kind}`, { enabled: read !== undefined, remember: true });
}

/** The kinds that this administrator may read. */
export function offeredKinds() {
  return subjectKinds.filter(({ isScoped }) => isScoped || isGlobal.value);
}

/** A thing of a subtree: a budget of a label and a limit of a provider are not. */
export function isReadable(kind: string, { id }: SubjectChoice): boolean {
  if (access.value?.userPath === undefined) return true;
  if (kind === 'budget') return id.startsWith('/');
  return kind !== 'rate-limit' || id.startsWith('user_path:');
}

function distinct(ids: readonly string[]): SubjectChoice[] {
  return [...new Set(ids)].map((id) => ({ id }));
}

function idOf<Name extends string>(name: Name): (row: Readonly<Record<Name, string>>) => SubjectChoice {
  return (row) => ({ id: row[name] });
}
