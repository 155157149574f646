import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { hrefOf } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { ChangeList } from './change-list.tsx';

export interface SubjectChangesProps {
  /** As the API has it: `key:<id>`, `user:<path>`, `budget:<path>`, … */
  readonly subject: string;
}

/** Changes of one page. */
const PAGE = 10;

/** The newest changes of one subject, and earlier ones in pages. */
export function SubjectChanges({ subject }: SubjectChangesProps) {
  /** The position before which each further page begins. */
  const [before, setBefore] = useState<readonly string[]>([]);
  const query = { subject, limit: PAGE, before: before.at(-1) };
  const { data, error, isLoading, since, cancel, reload } = useAnswer('/admin/history', query);
  const last = data?.entries.at(-1)?.position;
  if (error?.status === 404) return <EmptyState title="Never changed through the API." />;
  return (
    <div class="history-of">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {isLoading && data === undefined && <Pending since={since} onCancel={cancel} />}
      {data !== undefined && <ChangeList label="Changes" changes={data.entries} showSubject={false} />}
      {data !== undefined && (
        <div class="history-pages">
          {before.length > 0 && <Button onClick={() => setBefore(before.slice(0, -1))}>Newer</Button>}
          {data.has_more && last !== undefined && <Button onClick={() => setBefore([...before, last])}>Older</Button>}
          <a href={hrefOf('/history', { subject })}>Show in History</a>
        </div>
      )}
    </div>
  );
}
