import { useState } from 'preact/hooks';
import { hrefOf, route } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/fields.tsx';
import { savedViews } from './saved-views.ts';
import { givenViews, type SavedView, withoutView, withView } from './view-list.ts';

/** Named filters. A saved view has the time range, too; a given one keeps the current range. */
export function ViewsDialog({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState('');
  const current = route.value.query.toString();
  const save = () => {
    if (name.trim() === '') return;
    savedViews.value = withView(savedViews.value, { name: name.trim(), query: current });
    setName('');
  };
  return (
    <Dialog title="Views" onClose={onClose}>
      <ViewList title="Given" views={givenViews} range={rangeOf(route.value.query)} onChoose={onClose} />
      {savedViews.value.length > 0 && (
        <ViewList title="Saved in this browser" views={savedViews.value} onChoose={onClose} isOwn />
      )}
      <form
        class="audit-save-view"
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <TextField label="Save the current filter and time range as" value={name} onInput={setName} />
        <Button type="submit" disabled={name.trim() === ''}>
          Save
        </Button>
      </form>
    </Dialog>
  );
}

interface ViewListProps {
  readonly title: string;
  readonly views: readonly SavedView[];
  /** Parameters of the address that are added to each view. */
  readonly range?: Readonly<Record<string, string>>;
  readonly onChoose: () => void;
  readonly isOwn?: boolean;
}

function ViewList({ title, views, range = {}, onChoose, isOwn = false }: ViewListProps) {
  return (
    <section>
      <h3>{title}</h3>
      <ul class="audit-views">
        {views.map((view) => (
          <li key={view.name}>
            <a href={hrefOf('/audit', { ...parametersOf(view), ...range })} onClick={onChoose}>
              {view.name}
            </a>
            {isOwn && (
              <Button
                look="quiet"
                label={`Delete the view ${view.name}`}
                onClick={() => {
                  savedViews.value = withoutView(savedViews.value, view.name);
                }}
              >
                <span aria-hidden="true">✕</span>
              </Button>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function parametersOf({ query }: SavedView): Record<string, readonly string[]> {
  const parameters = new URLSearchParams(query);
  return Object.fromEntries([...new Set(parameters.keys())].map((name) => [name, parameters.getAll(name)]));
}

function rangeOf(query: URLSearchParams): Record<string, string> {
  return Object.fromEntries(['range', 'from', 'to'].map((name) => [name, query.get(name) ?? '']));
}
