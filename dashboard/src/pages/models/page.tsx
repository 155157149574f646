import './models.css';
import { isGlobal } from '../../api/access.ts';
import { navigate } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { shownTab, tabHref, tabs } from './models-address.ts';
import { ModelsTab } from './models-tab.tsx';
import { PricesTab } from './prices-tab.tsx';
import { ProvidersTab } from './providers-tab.tsx';
import { VirtualModelsTab } from './virtual-models-tab.tsx';

export default function ModelsPage() {
  if (!isGlobal.value) {
    return (
      <>
        <PageHeader title="Models and providers" />
        <p class="models-note">
          Virtual models, prices and providers belong to the whole gateway. Global administrators see them.
        </p>
        <ModelsTab />
      </>
    );
  }
  const shown = shownTab();
  return (
    <>
      <PageHeader title="Models and providers" />
      <Tabs
        label="Models and providers"
        tabs={tabs}
        shown={shown}
        onShow={(name) => navigate(tabHref(tabs.find((tab) => tab.name === name)?.name ?? 'models'))}
      >
        {shown === 'models' && <ModelsTab />}
        {shown === 'virtual' && <VirtualModelsTab />}
        {shown === 'prices' && <PricesTab />}
        {shown === 'providers' && <ProvidersTab />}
      </Tabs>
    </>
  );
}
