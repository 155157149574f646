import { useState } from 'preact/hooks';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { SafeText } from '../../content/text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { type Column, DataTable } from '../../ui/data-table.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { cellText, isNumeric, type ResultColumn, type SqlTable } from './sql-result.ts';

interface NumberedRow {
  readonly number: number;
  readonly values: readonly unknown[];
}

/** The rows of a result. Values are cut at the width of their column; the number of a row opens the whole row. */
export function ResultTable({ table }: { readonly table: SqlTable }) {
  const [shown, setShown] = useState<NumberedRow | undefined>(undefined);
  const columns: Column<NumberedRow>[] = [
    {
      ...{ name: '#', title: 'Row', width: 4.5, align: 'end' },
      cell: (row) => (
        <Button look="quiet" label={`Show row ${row.number}`} onClick={() => setShown(row)}>
          {row.number}
        </Button>
      ),
    },
    ...table.columns.map(
      (column, at): Column<NumberedRow> => ({
        name: `${at} ${column.name}`,
        title: column.name,
        width: widthOf(table, column, at),
        ...(isNumeric(column) ? { align: 'end' } : {}),
        cell: ({ values }) => <Cell column={column} value={values[at]} />,
      }),
    ),
  ];
  const rows = table.rows.map((values, at): NumberedRow => ({ number: at + 1, values }));
  return (
    <>
      <DataTable label="Result" columns={columns} rows={rows} rowKey={({ number }) => String(number)} />
      {shown !== undefined && (
        <Dialog title={`Row ${shown.number}`} place="side" onClose={() => setShown(undefined)}>
          <dl class="sql-row">
            {table.columns.map(({ name, type }, at) => (
              <div key={`${at} ${name}`}>
                <dt>
                  <Recorded text={name} /> <span class="sql-type">{type}</span>
                </dt>
                <dd>
                  <SafeText text={cellText(shown.values[at])} look="code" />
                </dd>
              </div>
            ))}
          </dl>
        </Dialog>
      )}
    </>
  );
}

function Cell({ column, value }: { readonly column: ResultColumn; readonly value: unknown }) {
  const text = cellText(value);
  if (column.name === 'exchange_id' && typeof value === 'string' && value !== '') {
    return (
      <a href={hrefOf(`/exchange/${encodeURIComponent(value)}`)}>
        <Recorded text={text} />
      </a>
    );
  }
  return <Recorded text={text} />;
}

const SAMPLE = 50;

/** Of the name and of the first values, in rem. */
function widthOf({ rows }: SqlTable, { name }: ResultColumn, at: number): number {
  const longest = rows.slice(0, SAMPLE).reduce((most, row) => Math.max(most, cellText(row[at]).length), name.length);
  return Math.min(24, Math.max(5, longest * 0.5 + 2));
}
