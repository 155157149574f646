/** Links within the page, which keep the shown time. */
import { asOfQuery } from '../../app/as-of.ts';
import { hrefOf, type QueryValue } from '../../app/router.ts';

export function keyHref(id: string): string {
  return hrefOf(`/keys/${encodeURIComponent(id)}`, asOfQuery());
}

export function tabHref(query: Readonly<Record<string, QueryValue>>): string {
  return hrefOf('/keys', { ...query, ...asOfQuery() });
}

/** Why a key or a path may use a model. */
export function explainHref(query: {
  readonly key?: string | undefined;
  readonly user_path?: string | undefined;
  readonly model?: string | undefined;
}): string {
  return tabHref({ tab: 'explain', ...query });
}

/** The changes of one subject, such as `key:<id>`. */
export function historyHref(subject: string): string {
  return hrefOf('/history', { subject });
}

/** The path of a key in the API. */
export function keyPath(id: string, action = ''): string {
  return `/admin/auth-keys/${encodeURIComponent(id)}${action === '' ? '' : `/${action}`}`;
}
