import { access } from '../../api/access.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { gatewayUrl } from '../../app/base-path.ts';
import { Fact, FactList } from '../../ui/fact-list.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';

/** Versions, and where machines read about the gateway. */
export function AboutTab() {
  const { data, error, since, cancel, reload } = useAnswer('/admin/runtime/versions');
  return (
    <div class="settings-panels">
      <Panel title="Versions">
        {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
        {data === undefined && error === undefined && <Pending since={since} onCancel={cancel} />}
        {data !== undefined && (
          <FactList>
            <Fact name="Gateway and dashboard">Chancery {data.gateway}</Fact>
            <Fact name="Node.js">{data.node}</Fact>
            <Fact name="Format of the log">{data.log_format}</Fact>
            <Fact name="Started">
              <Time at={data.started_at} />
            </Fact>
          </FactList>
        )}
      </Panel>
      <Panel title="Interfaces">
        <FactList>
          <Fact name="API">
            <a href={`${gatewayUrl}/openapi.json`}>openapi.json</a>, the description of all routes
          </Fact>
          <Fact name="Metrics">
            <code>{gatewayUrl}/metrics</code>, for Prometheus, with a key. <code>METRICS_ENABLED=true</code> turns it
            on.
          </Fact>
          <Fact name="Health">
            <a href={`${gatewayUrl}/health/ready`}>health/ready</a>
          </Fact>
          <Fact name="Your key">
            {access.value?.userPath === undefined ? 'administers the whole gateway' : 'administers a subtree'}
          </Fact>
        </FactList>
      </Panel>
    </div>
  );
}
