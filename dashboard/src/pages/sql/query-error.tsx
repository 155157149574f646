import type { ApiError } from '../../api/client.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorPanel } from '../../ui/states.tsx';
import { errorOffset, placeOf } from './query-text.ts';

interface QueryErrorProps {
  readonly error: ApiError;
  readonly query: string;
  readonly onGoTo: (offset: number) => void;
}

/** The message of ClickHouse or the gateway, and the place in the query that it names. */
export function QueryError({ error, query, onGoTo }: QueryErrorProps) {
  const offset = error.code === 'sql_refused' ? errorOffset(error.message, query) : undefined;
  const place = offset === undefined ? undefined : placeOf(offset, query);
  return (
    <div class="sql-error">
      <ErrorPanel error={error} />
      {error.code === 'sql_over_limit' && <p>Ask for fewer rows or columns, or sum them up.</p>}
      {offset !== undefined && place !== undefined && (
        <div>
          <Button onClick={() => onGoTo(offset)}>
            Go to line {place.line}, column {place.column}
          </Button>
        </div>
      )}
    </div>
  );
}
