import type { ComponentChildren } from 'preact';
import { route, setQuery } from '../../app/router.ts';
import { TextField } from '../../ui/fields.tsx';

/** What the search field says, in the address. */
export function searchedText(): string {
  return (route.value.query.get('q') ?? '').trim().toLowerCase();
}

/** The search field of a list, and its actions. */
export function LimitTools({ children }: { readonly children?: ComponentChildren }) {
  return (
    <div class="limit-tools">
      <TextField
        label="Search"
        type="search"
        placeholder="Part of a path or name"
        value={route.value.query.get('q') ?? ''}
        onInput={(q) => setQuery({ q })}
      />
      <div class="limit-tools-actions">{children}</div>
    </div>
  );
}
