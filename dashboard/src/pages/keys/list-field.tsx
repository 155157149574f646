/** A list of short texts, such as selectors of models or labels, edited one by one. */
import { useId } from 'preact/hooks';
import { Pieces } from '../../content/text/pieces.tsx';
import { Button } from '../../ui/button.tsx';
import { useProblem } from '../../ui/change-dialog.tsx';
import { TextField } from '../../ui/fields.tsx';

export interface ListDraft {
  readonly items: readonly string[];
  /** Typed and not yet added; it belongs to the list when the form is saved. */
  readonly text: string;
}

export function draftOf(items: readonly string[]): ListDraft {
  return { items, text: '' };
}

export function itemsOf({ items, text }: ListDraft): string[] {
  const typed = text.trim();
  return typed === '' || items.includes(typed) ? [...items] : [...items, typed];
}

interface ListFieldProps {
  readonly title: string;
  /** Of the field that adds one: `Add a model`. */
  readonly addLabel: string;
  /** What an empty list means. */
  readonly empty: string;
  readonly draft: ListDraft;
  readonly onChange: (draft: ListDraft) => void;
  readonly suggestions?: readonly string[] | undefined;
  /** The parameter of the API, for its problem. */
  readonly parameter: string;
}

export function ListField(props: ListFieldProps) {
  const { title, addLabel, empty, draft, onChange, suggestions = [], parameter } = props;
  const id = useId();
  const problem = useProblem(parameter);
  const add = () => onChange(draftOf(itemsOf(draft)));
  return (
    <div class="keys-list-field" role="group" aria-labelledby={id}>
      <p class="field-label" id={id}>
        {title}
      </p>
      {draft.items.length === 0 && draft.text === '' && <p>{empty}</p>}
      {draft.items.length > 0 && (
        <ul class="keys-chips">
          {draft.items.map((item) => (
            <li key={item}>
              <code>
                <Pieces text={item} />
              </code>
              <Button
                look="quiet"
                label={`Remove ${item}`}
                onClick={() => onChange({ ...draft, items: draft.items.filter((one) => one !== item) })}
              >
                <span aria-hidden="true">✕</span>
              </Button>
            </li>
          ))}
        </ul>
      )}
      <div
        class="keys-list-add"
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || draft.text.trim() === '') return;
          // Adds instead of saving the form.
          event.preventDefault();
          add();
        }}
      >
        <TextField
          label={addLabel}
          value={draft.text}
          onInput={(text) => onChange({ ...draft, text })}
          suggestions={suggestions.filter((one) => !draft.items.includes(one))}
          problem={problem}
        />
        <Button disabled={draft.text.trim() === ''} onClick={add}>
          Add
        </Button>
      </div>
    </div>
  );
}
