/** docs/analytics-tables.md, generated from the tables: the data dictionary of analytics. */
import { type Table, tableKeys, tables } from '../src/projections/analytics/tables.ts';
import { views } from '../src/projections/analytics/writer-fence.ts';

export const analyticsDocumentPath = 'docs/analytics-tables.md';

const head = `<!-- Generated from src/projections/analytics/tables.ts by "npm run docs:analytics"; changes made here are lost. -->
# The tables of analytics

All are in one database, \`chancery\` unless \`CLICKHOUSE_DATABASE\` says otherwise. Times are UTC. Money is in nano-dollars:
divide by 1e9. Text that is not known is empty. [analytics.md](analytics.md) describes how the tables are filled and
queried.
`;

const ownTables = `## \`_batches\` and \`_migrations\`

State of the projector: the stored ranges of the log, and the statements that made these tables.
`;

export function analyticsDocument(): string {
  const sections = tableKeys.map((key) => tableSection(tables[key]));
  const viewSections = views.map(
    ({ name, about, select }) => `## \`${name}\` (view)\n\n${about}\n\nColumns: ${columnsOf(select)}.\n`,
  );
  return `${[head, ...sections, ...viewSections, ownTables].join('\n').trimEnd()}\n`;
}

function tableSection({ name, about, columns, orderBy, time, projections }: Table): string {
  const rows = columns.map(
    (column) => `| \`${column.name}\` | \`${column.type}\` | ${column.about.replaceAll('|', '\\|')} |`,
  );
  const kept = Object.keys(projections ?? {}).map((one) => ` Keeps the aggregate \`${one}\` in its parts.`);
  return `## \`${name}\`

${about}

Sorted by \`${orderBy}\`, partitioned by the month of \`${time}\`.${kept.join('')}

| Column | Type | |
|---|---|---|
${rows.join('\n')}
`;
}

/** The names that a view gives its columns. */
function columnsOf(select: string): string {
  const names = [...(select.split(/\sFROM\s/)[0] ?? '').matchAll(/\sAS\s+(\w+)/g)].map(([, name]) => `\`${name}\``);
  return names.join(', ');
}
