import { useEffect, useId, useState } from 'preact/hooks';
import { isGlobal } from '../../api/access.ts';
import { setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { isReadable, offeredKinds, useSubjectChoices } from './subject-choices.ts';
import { subjectOf } from './subjects.ts';

/** Chooses whose changes are shown: a kind, and an id with the present ones as suggestions. */
export function SubjectFilter({ subject }: { readonly subject: string }) {
  const kinds = offeredKinds();
  const given = subjectOf(subject);
  const usual = isGlobal.value ? 'all' : 'key';
  const [kind, setKind] = useState(given?.kind.name ?? usual);
  const [id, setId] = useState(given?.id ?? '');
  // Another one was chosen by a link.
  useEffect(() => {
    setKind(given?.kind.name ?? usual);
    setId(given?.id ?? '');
  }, [subject]);
  const { data } = useSubjectChoices(kind === 'all' ? undefined : kind);
  const choices = (data ?? []).filter((choice) => isReadable(kind, choice));
  const field = useId();
  const show = (chosen: string | undefined) => setQuery({ subject: chosen, before: undefined }, { push: true });
  return (
    <form
      class="history-filter"
      onSubmit={(event) => {
        event.preventDefault();
        show(`${kind}:${id.trim()}`);
      }}
    >
      <SelectField
        label="Changes of"
        value={kind}
        choices={[
          ...(isGlobal.value ? [{ value: 'all', title: 'Everything' }] : []),
          ...kinds.map(({ name, title }) => ({ value: name, title })),
        ]}
        onChange={(chosen) => {
          setKind(chosen);
          setId(chosen === 'audit' ? 'reads' : '');
          if (chosen === 'all') show(undefined);
          if (chosen === 'audit') show('audit:reads');
        }}
      />
      {kind !== 'all' && kind !== 'audit' && (
        <>
          <div class="field history-id">
            <label for={field} class="field-label">
              {idLabels[kind] ?? 'Name'}
            </label>
            <input
              id={field}
              class="input"
              type="text"
              value={id}
              list={`${field}-list`}
              autocomplete="off"
              autocapitalize="off"
              spellcheck={false}
              onInput={(event) => setId(event.currentTarget.value)}
            />
            <datalist id={`${field}-list`}>
              {choices.map((choice) => (
                <option key={choice.id} value={choice.id} label={choice.title} />
              ))}
            </datalist>
          </div>
          <Button type="submit" look="main" disabled={id.trim() === ''}>
            Show
          </Button>
        </>
      )}
    </form>
  );
}

const idLabels: Readonly<Record<string, string>> = {
  key: 'Id of the key',
  user: 'User path',
  budget: 'User path, or label:…',
  'rate-limit': 'user_path:…, provider:… or model:…',
  workflow: 'Scope',
  price: 'Selector',
};
