import { PageHeader } from '../../ui/page-header.tsx';

export default function CachePage() {
  return <PageHeader title="Cache" />;
}
