/** The filters, which the gateway evaluates. They are in the address of the page. */
import type { RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { followPageKey } from '../../app/keys.ts';
import { route, setQuery } from '../../app/router.ts';
import type { LiveFilter, ShownEvents } from '../../live/live-filter.ts';
import { SelectField, TextField } from '../../ui/fields.tsx';

const shownEvents: readonly { readonly value: ShownEvents; readonly title: string }[] = [
  { value: 'all', title: 'All requests' },
  { value: 'ended', title: 'Ended requests' },
  { value: 'failed', title: 'Refused and failed' },
];

const texts = [
  { name: 'user_path', label: 'User path', placeholder: '/team' },
  { name: 'path', label: 'Request path begins with', placeholder: '/v1/' },
  { name: 'request_id', label: 'Request or exchange id', placeholder: '' },
  { name: 'auth_key_id', label: 'Key id', placeholder: '' },
] as const;

/** A filter is applied when nothing was typed for this long. */
const TYPING_MS = 500;

/** The filter in the address. */
export function currentFilter(): LiveFilter {
  const { query } = route.value;
  const given = (name: string) => query.get(name)?.trim() || undefined;
  const show = shownEvents.find(({ value }) => value === query.get('show'))?.value;
  return {
    show: show ?? 'all',
    userPath: given('user_path'),
    path: given('path'),
    requestId: given('request_id'),
    keyId: given('auth_key_id'),
  };
}

export function hasFilter({ show, userPath, path, requestId, keyId }: LiveFilter): boolean {
  return show !== 'all' || [userPath, path, requestId, keyId].some((value) => value !== undefined);
}

/** @param problem why the gateway refused the filter */
export function LiveFilters({
  filter,
  problem,
}: {
  readonly filter: LiveFilter;
  readonly problem: string | undefined;
}) {
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => followPageKey('/', () => first.current?.focus()), []);
  return (
    <search class="live-filters" aria-label="Filter of live requests">
      <SelectField
        label="Show"
        value={filter.show ?? 'all'}
        choices={shownEvents}
        onChange={(show) => setQuery({ show: show === 'all' ? undefined : show })}
      />
      {texts.map(({ name, label, placeholder }, index) => (
        <Filter
          key={name}
          {...{ name, label, placeholder }}
          inputRef={index === 0 ? first : undefined}
          problem={problem?.includes(`'${name}'`) ? problem : undefined}
        />
      ))}
    </search>
  );
}

interface FilterProps {
  readonly name: string;
  readonly label: string;
  readonly placeholder: string;
  readonly inputRef: RefObject<HTMLInputElement | null> | undefined;
  readonly problem: string | undefined;
}

function Filter({ name, label, placeholder, inputRef, problem }: FilterProps) {
  const applied = route.value.query.get(name) ?? '';
  const [typed, setTyped] = useState(applied);
  useEffect(() => setTyped(applied), [applied]);
  const apply = (value: string) => {
    if (value.trim() !== applied) setQuery({ [name]: value.trim() || undefined });
  };
  useEffect(() => {
    if (typed === applied) return undefined;
    const timer = setTimeout(() => apply(typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed, applied]);
  return (
    <TextField
      label={label}
      placeholder={placeholder}
      value={typed}
      onInput={setTyped}
      onCommit={apply}
      {...(inputRef === undefined ? {} : { inputRef })}
      problem={problem}
    />
  );
}
