import { PageHeader } from '../../ui/page-header.tsx';

export default function ModelsPage() {
  return <PageHeader title="Models and providers" />;
}
