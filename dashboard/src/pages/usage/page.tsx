import { PageHeader } from '../../ui/page-header.tsx';

export default function UsagePage() {
  return <PageHeader title="Usage" />;
}
