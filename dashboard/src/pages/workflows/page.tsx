import { PageHeader } from '../../ui/page-header.tsx';

export default function WorkflowsPage() {
  return <PageHeader title="Workflows and guardrails" />;
}
