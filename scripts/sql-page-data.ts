/**
 * What the dashboard's page of SQL offers: the questions of docs/analytics.md, the tables with their columns, and the
 * functions that readers may call. Written by `npm run docs:analytics`; a test compares the files with their sources.
 */
import { allowedFunctionNames } from '../src/http/clickhouse/allowed-functions.ts';
import { type Column, type Table, tableKeys, tables } from '../src/projections/analytics/tables.ts';
import { type View, views } from '../src/projections/analytics/writer-fence.ts';

const folder = 'dashboard/src/pages/sql/reference';

/** The files by path. @param guide the text of docs/analytics.md */
export function sqlPageData(guide: string): Readonly<Record<string, string>> {
  return {
    [`${folder}/questions.json`]: json(questionsOf(guide)),
    [`${folder}/tables.json`]: json([...tableKeys.map((key) => tableData(tables[key])), ...views.map(viewData)]),
    [`${folder}/functions.json`]: json({ functions: allowedFunctionNames.join(' ') }),
  };
}

export interface Question {
  readonly title: string;
  /** What the guide says before the query; or empty. */
  readonly about: string;
  readonly sql: string;
}

export function questionsOf(guide: string): Question[] {
  return [...guide.matchAll(/^### \d+\. (.+?)\n((?:(?!^###).)*?)^```sql\n(.+?)\n```$/gms)].map(
    ([, title = '', about = '', sql = '']) => ({ title, about: about.replaceAll(/\s+/g, ' ').trim(), sql }),
  );
}

function tableData({ name, about, columns }: Table) {
  return {
    name,
    about,
    columns: columns.map(({ name: column, type, about: use }) => ({ name: column, type, about: use })),
  };
}

/** Types and descriptions of a view's columns are those of the columns that it reads. */
function viewData({ name, about, select, computed = {} }: View) {
  const list = select.split(/\sFROM\s/)[0]?.replace(/^SELECT\s+/, '') ?? '';
  const columns = [...list.matchAll(/(.+?)\s+AS\s+(\w+)(?:,\s*|\s*$)/gs)].map(([, expression = '', column = '']) => {
    const own = computed[column];
    if (own !== undefined) return { name: column, ...own };
    const read = /(?:\w\.|`)([\w.]+)`?\)?$/.exec(expression.trim())?.[1] ?? '';
    const source = columnNamed(read);
    return { name: column, type: elementOf(source?.type ?? ''), about: source?.about ?? '' };
  });
  return { name, about, columns };
}

function columnNamed(name: string): Column | undefined {
  return [...tables.usage.columns, ...tables.exchanges.columns].find((column) => column.name === name);
}

/** A view has one row for each element. */
function elementOf(type: string): string {
  return /^Array\((.+)\)$/.exec(type)?.[1] ?? type;
}

function json(value: unknown): string {
  return `${JSON.stringify(value, undefined, 2)}\n`;
}
