import { PageHeader } from '../../ui/page-header.tsx';

export default function LivePage() {
  return <PageHeader title="Live" />;
}
