import { PageHeader } from '../../ui/page-header.tsx';

export default function LogPage() {
  return <PageHeader title="Log and gateways" />;
}
