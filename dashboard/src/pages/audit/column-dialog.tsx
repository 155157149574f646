import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { CheckField } from '../../ui/fields.tsx';
import { chooseUsualColumns, chosenColumns, columnChoices } from './columns.tsx';

/** The choice is kept in this browser. */
export function ColumnDialog({ onClose }: { readonly onClose: () => void }) {
  const chosen = chosenColumns.value;
  return (
    <Dialog title="Columns" onClose={onClose}>
      <div class="audit-columns">
        {columnChoices.map(({ name, title }) => (
          <CheckField
            key={name}
            label={title}
            checked={chosen.includes(name)}
            onChange={(isChosen) => {
              chosenColumns.value = isChosen ? [...chosen, name] : chosen.filter((one) => one !== name);
            }}
          />
        ))}
      </div>
      <div>
        <Button onClick={chooseUsualColumns}>Usual columns</Button>
      </div>
    </Dialog>
  );
}
