import './settings-page.css';
import { isGlobal } from '../../api/access.ts';
import { route, setQuery } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { AboutTab } from './about-tab.tsx';
import { FeaturesTab } from './features-tab.tsx';
import { LabelsTab } from './labels-tab.tsx';

const tabs = [
  { name: 'features', title: 'Features' },
  { name: 'labels', title: 'Labels' },
  { name: 'about', title: 'About' },
] as const;

export default function SettingsPage() {
  // The others concern the whole gateway.
  const offered = isGlobal.value ? tabs : tabs.filter(({ name }) => name === 'features');
  const shown = offered.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'features';
  return (
    <>
      <PageHeader title="Settings and About" />
      <Tabs label="Settings" tabs={offered} shown={shown} onShow={(tab) => setQuery({ tab }, { push: true })}>
        {shown === 'features' && <FeaturesTab />}
        {shown === 'labels' && <LabelsTab />}
        {shown === 'about' && <AboutTab />}
      </Tabs>
    </>
  );
}
