/** Names of keys by their id, as far as the administrator sees them. */
import { useMemo } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';

export type KeyNames = ReadonlyMap<string, string>;

export function useKeyNames(): KeyNames {
  const { data } = useAnswer('/admin/auth-keys');
  return useMemo(() => new Map((data ?? []).map(({ id, name }) => [id, name])), [data]);
}
