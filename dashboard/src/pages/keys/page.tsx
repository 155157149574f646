import './keys.css';
import type { PageProps } from '../../app/page-entry.ts';
import { route, setQuery } from '../../app/router.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { ExplainTab } from './explain-tab.tsx';
import { KeyView } from './key-view.tsx';
import { KeysTab } from './keys-tab.tsx';
import { UsersTab } from './users-tab.tsx';

const tabs = [
  { name: 'users', title: 'Users' },
  { name: 'keys', title: 'Keys' },
  { name: 'explain', title: 'Explain' },
] as const;

export default function KeysPage({ id }: PageProps) {
  if (id !== '') return <KeyView key={id} id={id} />;
  const shown = tabs.find(({ name }) => name === route.value.query.get('tab'))?.name ?? 'users';
  return (
    <>
      <PageHeader title="Users and keys" />
      <Tabs
        label="Users and keys"
        tabs={tabs}
        shown={shown}
        onShow={(name) => setQuery({ tab: name === 'users' ? undefined : name }, { push: true })}
      >
        {shown === 'users' && <UsersTab />}
        {shown === 'keys' && <KeysTab />}
        {shown === 'explain' && <ExplainTab />}
      </Tabs>
    </>
  );
}
