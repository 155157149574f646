import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { followPageKey } from '../../app/keys.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/fields.tsx';
import { type ActiveFilter, type AuditFilter, activeFilters, filterSentence, searchedFor, toggled } from './filter.ts';

interface FilterBarProps {
  readonly filter: AuditFilter;
  readonly onChange: (filter: AuditFilter) => void;
  /** Names of keys by id, as far as they are known. */
  readonly keyNames: ReadonlyMap<string, string>;
  /** Further controls beside the search field. */
  readonly children?: ComponentChildren;
}

/** Search, and every active filter with a way to remove it. */
export function FilterBar({ filter, onChange, keyNames, children }: FilterBarProps) {
  const searched = filter.id?.[0] ?? filter.search?.[0] ?? '';
  const active = activeFilters(filter);
  return (
    <div class="filter-bar">
      <div class="filter-bar-search">
        <SearchField key={searched} searched={searched} onSearch={(text) => onChange(searchedFor(filter, text))} />
        {children}
      </div>
      {active.length > 0 && (
        <ul class="filter-bar-active" aria-label="Active filters">
          {active.map((one) => (
            <li key={`${one.name} ${one.value}`}>
              <ActiveChip
                name={one.name}
                value={one.name === 'auth_key_id' ? (keyNames.get(one.value) ?? one.value) : one.value}
                onRemove={() => onChange(toggled(filter, one.name, one.value))}
              />
            </li>
          ))}
          <li>
            <Button look="quiet" onClick={() => onChange({})}>
              Remove all
            </Button>
          </li>
        </ul>
      )}
    </div>
  );
}

interface SearchFieldProps {
  readonly searched: string;
  readonly onSearch: (text: string) => void;
}

function SearchField({ searched, onSearch }: SearchFieldProps) {
  const [text, setText] = useState(searched);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => followPageKey('/', () => field.current?.focus()), []);
  return (
    <form
      role="search"
      class="filter-bar-form"
      onSubmit={(event) => {
        event.preventDefault();
        onSearch(text);
      }}
    >
      <TextField
        label="Search"
        hideLabel
        type="search"
        placeholder="Any id, or part of a name, path or error ( / )"
        value={text}
        onInput={(value) => {
          setText(value);
          // The field's own button for clearing it sends no form.
          if (value === '' && searched !== '') onSearch('');
        }}
        inputRef={field}
      />
      <Button type="submit">Search</Button>
    </form>
  );
}

function ActiveChip({ name, value, onRemove }: ActiveFilter & { readonly onRemove: () => void }) {
  return (
    <button type="button" class="chip" onClick={onRemove}>
      <span class="visually-hidden">Remove the filter </span>
      <span>
        {filterSentence(name)}{' '}
        <strong>
          <Recorded text={value} />
        </strong>
      </span>
      <span aria-hidden="true">✕</span>
    </button>
  );
}
