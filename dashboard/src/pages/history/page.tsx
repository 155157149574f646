import { PageHeader } from '../../ui/page-header.tsx';

export default function HistoryPage() {
  return <PageHeader title="History" />;
}
