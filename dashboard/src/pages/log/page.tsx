import './log.css';
import { isGlobal } from '../../api/access.ts';
import { route, setQuery } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { GatewaysTab } from './gateways-tab.tsx';
import { LogTab } from './log-tab.tsx';
import { ProjectionsTab } from './projections-tab.tsx';
import { StreamsTab } from './streams-tab.tsx';

/** How often the tabs read again while the page is visible. */
const REFRESH_MS = 5000;

const tabs = [
  { name: 'log', title: 'Log' },
  { name: 'streams', title: 'Streams' },
  { name: 'projections', title: 'Projections' },
  { name: 'gateways', title: 'Gateways' },
] as const;

export default function LogPage() {
  const shown = tabs.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'log';
  return (
    <>
      <PageHeader title="Log and gateways" />
      {isGlobal.value ? (
        <Tabs
          label="Log and gateways"
          tabs={tabs}
          shown={shown}
          onShow={(tab) => setQuery({ tab, stream: undefined, before: undefined }, { push: true })}
        >
          {shown === 'log' && <LogTab refreshMs={REFRESH_MS} />}
          {shown === 'streams' && <StreamsTab />}
          {shown === 'projections' && <ProjectionsTab refreshMs={REFRESH_MS} />}
          {shown === 'gateways' && <GatewaysTab refreshMs={REFRESH_MS} />}
        </Tabs>
      ) : (
        <EmptyState title="The log belongs to the whole gateway.">
          <p>Only a global administrator sees this page.</p>
        </EmptyState>
      )}
    </>
  );
}
