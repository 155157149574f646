/** The largest of some kind, as a table whose rows have bars. */
import './charts.css';
import type { ComponentChildren } from 'preact';
import { Recorded } from '../content/text/recorded.tsx';

export interface BarRow {
  readonly key: string;
  /** May be a name that a client or an administrator chose. */
  readonly title: string;
  readonly href?: string | undefined;
  /** The length of the bar; null is unknown, without one. */
  readonly value: number | null;
  /** Part of the bar that is marked, such as failures. */
  readonly marked?: number;
  /** Beside the bar, in the columns of the list. */
  readonly cells: readonly ComponentChildren[];
}

interface BarListProps {
  readonly label: string;
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: readonly BarRow[];
}

export function BarList({ label, name, columns, rows }: BarListProps) {
  const max = Math.max(0, ...rows.map(({ value }) => value ?? 0));
  const part = (value: number) => `${max === 0 ? 0 : (100 * value) / max}%`;
  return (
    <div class="bar-list" tabIndex={0} role="group" aria-label={label}>
      <table aria-label={label}>
        <thead>
          <tr>
            <th scope="col">{name}</th>
            {columns.map((column) => (
              <th key={column} scope="col">
                {column}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ key, title, href, value, marked = 0, cells }) => (
            <tr key={key}>
              <th scope="row">
                {href === undefined ? (
                  <span class="bar-list-title">
                    <Recorded text={title} />
                  </span>
                ) : (
                  <a href={href} class="bar-list-title">
                    <Recorded text={title} />
                  </a>
                )}
                <span class="bar-list-bar" aria-hidden="true">
                  <span style={{ width: part(value ?? 0) }} />
                  {marked > 0 && <span class="bar-list-marked" style={{ width: part(marked) }} />}
                </span>
              </th>
              {cells.map((cell, place) => (
                <td key={columns[place]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
