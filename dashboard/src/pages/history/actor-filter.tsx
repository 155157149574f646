import { useAnswer } from '../../api/use-answer.ts';
import { route, setQuery } from '../../app/router.ts';
import { SelectField } from '../../ui/fields.tsx';

/** Chooses whose changes are shown: those of everyone, the master key, or one key. */
export function ActorFilter() {
  const { data } = useAnswer('/admin/auth-keys');
  const actor = route.value.query.get('actor') ?? '';
  const keys = (data ?? [])
    .filter(({ id, dashboard_access }) => dashboard_access || `key:${id}` === actor)
    .map(({ id, name }) => ({ value: `key:${id}`, title: name }));
  const known = [{ value: '', title: 'Anyone' }, { value: 'master', title: 'The master key' }, ...keys];
  const choices = known.some(({ value }) => value === actor) ? known : [...known, { value: actor, title: actor }];
  return (
    <SelectField
      label="By"
      value={actor}
      choices={choices}
      onChange={(chosen) => setQuery({ actor: chosen || undefined, before: undefined }, { push: true })}
    />
  );
}
