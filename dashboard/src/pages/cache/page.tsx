import { access, isGlobal } from '../../api/access.ts';
import { PageHeader } from '../../ui/page-header.tsx';
import { currentRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { EmptyState } from '../../ui/states.tsx';
import { CacheFigures } from './cache-figures.tsx';
import { PurgePanel } from './purge-panel.tsx';

export default function CachePage() {
  const isOff = access.value?.features['CACHE_ENABLED'] === 'off';
  return isOff ? <CacheOff /> : <Cache />;
}

function CacheOff() {
  return (
    <>
      <PageHeader title="Cache" />
      <EmptyState title="The response cache is switched off.">
        <p>
          It answers equal requests from earlier answers. Start the gateway with{' '}
          <code>RESPONSE_CACHE_ENABLED=true</code>, or set <code>cache.response.enabled: true</code> in its
          configuration file. Its figures require <code>USAGE_ENABLED=true</code>.
        </p>
      </EmptyState>
    </>
  );
}

function Cache() {
  const range = currentRange('30d');
  return (
    <>
      <PageHeader title="Cache">{isGlobal.value && <RangePicker range={range} />}</PageHeader>
      {isGlobal.value ? (
        <CacheFigures range={range}>
          <PurgePanel />
        </CacheFigures>
      ) : (
        <>
          <p>The figures of the cache are those of the whole gateway, and shown to its administrators only.</p>
          <PurgePanel />
        </>
      )}
    </>
  );
}
