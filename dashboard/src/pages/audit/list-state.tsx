import { Button } from '../../ui/button.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { NoRequests } from './no-requests.tsx';
import type { Pages } from './use-pages.ts';

interface ListStateProps {
  readonly pages: Pages<unknown>;
  readonly isFiltered: boolean;
  /** Set when an id was searched that nothing may have. */
  readonly searchHref?: string | undefined;
}

/** What is shown below or instead of the rows of a list: loading, an error, nothing. */
export function ListState({ pages, isFiltered, searchHref }: ListStateProps) {
  const { rows, isLoading, isComplete, error, since, cancel, reload } = pages;
  const isStopped = !isLoading && !isComplete && error === undefined && rows.length === 0;
  return (
    <>
      {isLoading && (
        <div class="list-busy">
          <Pending since={since} onCancel={cancel} />
        </div>
      )}
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {isStopped && (
        <EmptyState title="Loading was stopped.">
          <div>
            <Button onClick={reload}>Load again</Button>
          </div>
        </EmptyState>
      )}
      {rows.length === 0 && isComplete && <NoRequests isFiltered={isFiltered} searchHref={searchHref} />}
    </>
  );
}
