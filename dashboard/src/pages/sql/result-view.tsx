import { useState } from 'preact/hooks';
import { ApiError } from '../../api/client.ts';
import { visibleText } from '../../content/text/hidden-characters.ts';
import { formatCount, formatDuration } from '../../format/numbers.ts';
import { Button } from '../../ui/button.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { saveFile } from '../audit/export-file.ts';
import { ResultChart } from './result-chart.tsx';
import { ResultTable } from './result-table.tsx';
import { type FileFormat, fileFormats, fileOf, type SqlAnswer } from './run-sql.ts';

interface ResultViewProps {
  readonly query: string;
  readonly answer: SqlAnswer;
  readonly limit: number;
}

/** The answer as a table or a chart, and as a file. */
export function ResultView({ query, answer, limit }: ResultViewProps) {
  const [isChart, setChart] = useState(false);
  if (answer.kind === 'text') return <CodeBlock text={visibleText(answer.text)} label="Result" />;
  const { table } = answer;
  const count = table.rows.length;
  return (
    <>
      <div class="sql-result-head">
        <p role="status">
          {count === limit
            ? `The first ${formatCount(count)} rows`
            : `${formatCount(count)} ${count === 1 ? 'row' : 'rows'}`}
          {table.seconds === undefined ? '' : ` in ${formatDuration(table.seconds * 1000)}`}
        </p>
        <div class="sql-choices">
          <Button pressed={!isChart} onClick={() => setChart(false)}>
            Table
          </Button>
          <Button pressed={isChart} onClick={() => setChart(true)}>
            Chart
          </Button>
          <SaveResult query={query} />
        </div>
      </div>
      {count === 0 && <EmptyState title="No rows." />}
      {count > 0 && (isChart ? <ResultChart table={table} /> : <ResultTable table={table} />)}
    </>
  );
}

/** Saves all rows of the result: the query runs again. */
function SaveResult({ query }: { readonly query: string }) {
  const [format, setFormat] = useState<FileFormat>('CSVWithNames');
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string | undefined>(undefined);
  const save = async () => {
    setBusy(true);
    setProblem(undefined);
    try {
      const extension = fileFormats.find(({ name }) => name === format)?.extension ?? 'txt';
      saveFile(await fileOf(query, format, new AbortController().signal), `query.${extension}`);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <SelectField
        label="Format of the file"
        hideLabel
        value={format}
        choices={fileFormats.map(({ name, title }) => ({ value: name, title }))}
        onChange={setFormat}
      />
      <Button onClick={() => void save()} disabled={isBusy} title="Runs the query again, with up to 100,000 rows">
        {isBusy ? 'Saving' : 'Save all rows'}
      </Button>
      {problem !== undefined && (
        <span role="alert" class="sql-problem">
          {problem}
        </span>
      )}
    </>
  );
}
