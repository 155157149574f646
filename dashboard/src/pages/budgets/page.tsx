import { PageHeader } from '../../ui/page-header.tsx';

export default function BudgetsPage() {
  return <PageHeader title="Budgets and limits" />;
}
