import { PageHeader } from '../../ui/page-header.tsx';

export default function ExchangePage() {
  return <PageHeader title="Exchange" />;
}
