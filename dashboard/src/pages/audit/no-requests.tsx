import { access } from '../../api/access.ts';
import { hrefOf } from '../../app/router.ts';
import { FirstRequest } from '../../ui/first-request.tsx';
import { EmptyState } from '../../ui/states.tsx';

interface NoRequestsProps {
  readonly isFiltered: boolean;
  /** Set when an id was searched that nothing has. */
  readonly searchHref?: string | undefined;
}

export function NoRequests({ isFiltered, searchHref }: NoRequestsProps) {
  if (access.value?.features['LOGGING_ENABLED'] === 'off') {
    return (
      <EmptyState title="Requests are not kept for this page.">
        <p>
          The gateway runs with <code>LOGGING_ENABLED=false</code>.
        </p>
      </EmptyState>
    );
  }
  if (access.value?.features['ANALYTICS_ENABLED'] === 'off') {
    return (
      <EmptyState title="Analytics is off.">
        <p>
          Requests are recorded, and cannot be listed. Start the gateway with <code>ANALYTICS_ENABLED=true</code>.
        </p>
      </EmptyState>
    );
  }
  if (searchHref !== undefined) {
    return (
      <EmptyState title="No request has this id.">
        <p>
          A request is listed some seconds after it ended. <a href={searchHref}>Search for the text</a>
        </p>
      </EmptyState>
    );
  }
  if (isFiltered) {
    return (
      <EmptyState title="No requests match the filter in this time range.">
        <p>
          <a href={hrefOf('/audit', { range: '365d' })}>Show all requests of the last 365 days</a>
        </p>
      </EmptyState>
    );
  }
  return (
    <EmptyState title="No requests in this time range.">
      <FirstRequest />
      <p>
        <a href={hrefOf('/audit', { range: '365d' })}>Show the last 365 days</a>
      </p>
    </EmptyState>
  );
}
