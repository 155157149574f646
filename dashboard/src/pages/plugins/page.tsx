import { PageHeader } from '../../ui/page-header.tsx';

export default function PluginsPage() {
  return <PageHeader title="Plugins" />;
}
