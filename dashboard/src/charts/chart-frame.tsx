/** What every chart has: a legend, a switch to a table of the same values, and a height that does not change. */
import './charts.css';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../ui/button.tsx';

export interface ChartTable {
  readonly columns: readonly string[];
  readonly rows: readonly { readonly key: string; readonly cells: readonly ComponentChildren[] }[];
}

interface ChartFrameProps {
  /** Read out as the name of the chart. */
  readonly label: string;
  readonly legend?: ComponentChildren;
  readonly table: () => ChartTable;
  /** Of the chart, in pixels. */
  readonly height: number;
  readonly children: ComponentChildren;
}

export function ChartFrame({ label, legend, table, height, children }: ChartFrameProps) {
  const [isTable, setTable] = useState(false);
  return (
    <figure class="chart" aria-label={label}>
      <div class="chart-head">
        <div class="chart-legend">{legend}</div>
        <Button look="quiet" pressed={isTable} onClick={() => setTable(!isTable)}>
          Table
        </Button>
      </div>
      <div class="chart-body" style={{ minHeight: `${height}px` }}>
        {isTable ? <TableOf label={label} table={table()} height={height} /> : children}
      </div>
    </figure>
  );
}

function TableOf({ label, table, height }: { label: string; table: ChartTable; height: number }) {
  return (
    <div
      class="chart-table"
      style={{ maxHeight: `${height}px` }}
      tabIndex={0}
      role="group"
      aria-label={`${label}: table`}
    >
      <table>
        <thead>
          <tr>
            {table.columns.map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map(({ key, cells }) => (
            <tr key={key}>
              {cells.map((cell, place) =>
                place === 0 ? (
                  <th key={table.columns[place]} scope="row">
                    {cell}
                  </th>
                ) : (
                  <td key={table.columns[place]}>{cell}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
