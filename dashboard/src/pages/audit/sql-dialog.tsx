import { isGlobal } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf, type QueryValue } from '../../app/router.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { fragmentOf } from '../sql/query-text.ts';

interface SqlDialogProps {
  readonly query: Readonly<Record<string, QueryValue>>;
  readonly onClose: () => void;
}

/** The shown requests as a query for ClickHouse. */
export function SqlDialog({ query, onClose }: SqlDialogProps) {
  const { data, error, isLoading, since, cancel, reload } = useAnswer('/admin/audit/sql', query);
  return (
    <Dialog title="SQL for this view" onClose={onClose}>
      {isLoading && <Pending since={since} onCancel={cancel} />}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data !== undefined && <CodeBlock text={data.sql} label="SQL query" />}
      {data !== undefined && isGlobal.value && fragmentOf(data.sql) !== '' && (
        <p>
          <a href={hrefOf('/sql') + fragmentOf(data.sql)}>Open it in the page SQL</a>
        </p>
      )}
      <p>
        Send it to <code>POST /admin/sql</code> as <code>{'{"query": "…"}'}</code>, or to ClickHouse. The query finds at
        most 1,000 requests.
      </p>
    </Dialog>
  );
}
