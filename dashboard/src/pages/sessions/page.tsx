import { PageHeader } from '../../ui/page-header.tsx';

export default function SessionsPage() {
  return <PageHeader title="Sessions" />;
}
