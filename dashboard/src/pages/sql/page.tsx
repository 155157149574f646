import { PageHeader } from '../../ui/page-header.tsx';

export default function SqlPage() {
  return <PageHeader title="SQL" />;
}
