import './sql.css';
import { access, isGlobal } from '../../api/access.ts';
import { hrefOf } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Workbench } from './workbench.tsx';

export default function SqlPage() {
  const isOff = access.value?.features['ANALYTICS_ENABLED'] === 'off';
  return (
    <>
      <PageHeader title="SQL" />
      {!isGlobal.value ? <NotOfSubtree /> : isOff ? <AnalyticsOff /> : <Workbench />}
    </>
  );
}

function NotOfSubtree() {
  return (
    <EmptyState title="SQL is for administrators of the whole gateway.">
      <p>
        The tables have all requests. <a href={hrefOf('/audit')}>Audit</a> and <a href={hrefOf('/usage')}>Usage</a> have
        those of your subtree, with filters and files to download.
      </p>
    </EmptyState>
  );
}

function AnalyticsOff() {
  return (
    <EmptyState title="Analytics is off, so there are no tables.">
      <p>
        Start the gateway with <code>ANALYTICS_ENABLED=true</code>, or set <code>analytics.enabled: true</code> in its
        configuration file.
      </p>
    </EmptyState>
  );
}
