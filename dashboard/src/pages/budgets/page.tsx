import './budgets.css';
import { isPast } from '../../app/as-of.ts';
import { route, setQuery } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { BudgetsTab } from './budgets-tab.tsx';
import { RateLimitsTab } from './rate-limits-tab.tsx';
import { SettingsTab } from './settings-tab.tsx';

const tabs = [
  { name: 'budgets', title: 'Budgets' },
  { name: 'limits', title: 'Rate limits' },
  { name: 'settings', title: 'Settings' },
] as const;

export default function BudgetsPage() {
  const shown = tabs.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'budgets';
  return (
    <>
      <PageHeader title="Budgets and limits" />
      <Tabs
        label="Parts"
        tabs={tabs}
        shown={shown}
        onShow={(tab) => setQuery({ tab: tab === 'budgets' ? undefined : tab, q: undefined }, { push: true })}
      >
        {shown === 'budgets' && <BudgetsTab />}
        {shown === 'limits' && <RateLimitsTab />}
        {shown === 'settings' && <SettingsTab isPast={isPast.value} />}
      </Tabs>
    </>
  );
}
