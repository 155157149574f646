import { useState } from 'preact/hooks';
import { Button } from '../../ui/button.tsx';
import { TextField } from '../../ui/fields.tsx';
import type { ReferenceColumn, ReferenceTable } from './complete.ts';
import { reference, withoutMarks } from './reference.ts';

interface SchemaTreeProps {
  /** Puts a name into the query. */
  readonly onInsert: (name: string) => void;
}

/** The tables of analytics with their columns, types and descriptions. */
export function SchemaTree({ onInsert }: SchemaTreeProps) {
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const tables = reference.tables.flatMap((table) => {
    const columns = wanted === '' ? table.columns : table.columns.filter((column) => isFound(column, wanted));
    return columns.length > 0 || table.name.includes(wanted) ? [{ table, columns }] : [];
  });
  return (
    <div class="sql-schema">
      <TextField label="Search columns" type="search" value={text} onInput={setText} />
      {tables.map(({ table, columns }) => (
        <TableEntry key={table.name} table={table} columns={columns} isOpen={wanted !== ''} onInsert={onInsert} />
      ))}
      {tables.length === 0 && <p>No column has this in its name or description.</p>}
      <p class="sql-note">Times are UTC. Money is in nano-dollars: divide by 1e9.</p>
    </div>
  );
}

function isFound({ name, about }: ReferenceColumn, wanted: string): boolean {
  return name.toLowerCase().includes(wanted) || about.toLowerCase().includes(wanted);
}

interface TableEntryProps extends SchemaTreeProps {
  readonly table: ReferenceTable;
  readonly columns: readonly ReferenceColumn[];
  readonly isOpen: boolean;
}

function TableEntry({ table: { name, about }, columns, isOpen, onInsert }: TableEntryProps) {
  const [chosen, setChosen] = useState(false);
  return (
    <details open={isOpen || chosen} onToggle={(event) => isOpen || setChosen(event.currentTarget.open)}>
      <summary>
        <code>{name}</code>
      </summary>
      {(isOpen || chosen) && (
        <>
          <p class="sql-note">{withoutMarks(about)}</p>
          <ul>
            {columns.map((column) => (
              <li key={column.name}>
                <Button look="quiet" label={`Insert ${column.name}`} onClick={() => onInsert(written(column.name))}>
                  <code>{column.name}</code>
                </Button>
                <span class="sql-type">{column.type}</span>
                <span class="sql-note">{withoutMarks(column.about)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </details>
  );
}

function written(name: string): string {
  return /^\w+$/.test(name) ? name : `\`${name}\``;
}
