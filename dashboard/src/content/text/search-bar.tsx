import './search-bar.css';
import { formatCount } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/fields.tsx';

interface SearchBarProps {
  readonly query: string;
  readonly onQuery: (query: string) => void;
  /** Undefined while the search is running. */
  readonly count: number | undefined;
  readonly more: boolean;
  /** Index of the current match; -1 for none. */
  readonly at: number;
  readonly onMove: (by: 1 | -1) => void;
  readonly label: string;
}

/** A field to search within recorded content, the number of matches, and buttons for the next and the previous one. */
export function SearchBar({ query, onQuery, count, more, at, onMove, label }: SearchBarProps) {
  const none = count === undefined || count === 0;
  return (
    <div class="search-bar" role="search">
      <TextField
        label={label}
        hideLabel
        placeholder={label}
        type="search"
        value={query}
        onInput={onQuery}
        onCommit={() => onMove(1)}
      />
      {query !== '' && (
        <>
          <Button label="Previous match" disabled={none} onClick={() => onMove(-1)}>
            <span aria-hidden="true">↑</span>
          </Button>
          <Button label="Next match" disabled={none} onClick={() => onMove(1)}>
            <span aria-hidden="true">↓</span>
          </Button>
        </>
      )}
      <span class="search-bar-count" role="status">
        {query === '' ? '' : count === undefined ? 'Searching' : countText(count, more, at)}
      </span>
    </div>
  );
}

function countText(count: number, more: boolean, at: number): string {
  if (count === 0) return 'Not found';
  const all = `${formatCount(count)}${more ? ' or more' : ''}`;
  return at < 0 ? `${all} found` : `${formatCount(at + 1)} of ${all}`;
}
