import { useAnswer } from '../../api/use-answer.ts';
import { setQuery } from '../../app/router.ts';
import { DiffView } from '../../content/diff/diff-view.tsx';
import { Recorded } from '../../content/text/recorded.tsx';
import { Time } from '../../ui/facts.tsx';
import { SelectField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref, parameter } from './address.ts';
import { comparable } from './workflow-draft.ts';
import type { Workflow, WorkflowVersion } from './workflow-rows.ts';

/** The versions of the scope, and the differences of this one from another, which is in the address (`with`). */
export function VersionsPanel({ row }: { readonly row: Workflow }) {
  const at = `/admin/workflows/${encodeURIComponent(row.id)}/versions`;
  const { data, error, since, reload } = useAnswer({ of: '/admin/workflows/{id}/versions', at });
  return (
    <Panel title="Versions">
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && <Versions row={row} versions={data} />}
    </Panel>
  );
}

function Versions({ row, versions }: { readonly row: Workflow; readonly versions: readonly WorkflowVersion[] }) {
  const others = versions.filter(({ id }) => id !== row.id);
  const chosen = parameter('with');
  const other =
    others.find(({ id }) => id === chosen) ?? others.find(({ version }) => version < row.version) ?? others.at(-1);
  return (
    <>
      <ol class="wf-versions">
        {versions.map(({ id, version, name, active, created_at }) => (
          <li key={id} aria-current={id === row.id ? 'true' : undefined}>
            <a href={pageHref('workflows', { workflow: id })}>Version {version}</a> <Recorded text={name} />,{' '}
            <Time at={created_at} /> {active && <Badge tone="ok">active</Badge>}
          </li>
        ))}
      </ol>
      {other === undefined ? (
        <p class="wf-muted">This is the only version of its scope.</p>
      ) : (
        <div class="wf-compare">
          <SelectField
            label={`Compare version ${row.version} with`}
            value={other.id}
            choices={others.map(({ id, version, name }) => ({ value: id, title: `Version ${version}: ${name}` }))}
            onChange={(id) => setQuery({ with: id })}
          />
          <DiffView
            key={other.id}
            before={comparable(other)}
            after={comparable(row)}
            beforeTitle={`Version ${other.version}`}
            afterTitle={`Version ${row.version}`}
          />
        </div>
      )}
    </>
  );
}
