import { PageHeader } from '../../ui/page-header.tsx';

export default function KeysPage() {
  return <PageHeader title="Users and keys" />;
}
