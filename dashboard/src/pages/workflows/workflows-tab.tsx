import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { asOfQuery, isPast } from '../../app/as-of.ts';
import { navigate } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref, parameter } from './address.ts';
import { StepNames } from './step-names.tsx';
import { WorkflowDetail } from './workflow-detail.tsx';
import { WorkflowDialog } from './workflow-dialog.tsx';
import { emptyDraft } from './workflow-draft.ts';
import { features, scopeTitle, type Workflow } from './workflow-rows.ts';

/** The active workflows, or one version of the address. */
export function WorkflowsTab() {
  const { data, error, since, reload, cancel } = useAnswer('/admin/workflows', asOfQuery());
  const shown = parameter('workflow');
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since} onCancel={cancel} />;
  if (shown !== undefined) return <WorkflowDetail key={shown} id={shown} active={data} onChange={reload} />;
  return <WorkflowList active={data} onChange={reload} />;
}

interface WorkflowListProps {
  readonly active: readonly Workflow[];
  readonly onChange: () => void;
}

function WorkflowList({ active, onChange }: WorkflowListProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Panel
        title="Active workflows"
        actions={
          !isPast.value && (
            <Button look="main" onClick={() => setOpen(true)}>
              New workflow
            </Button>
          )
        }
      >
        <p class="wf-note">
          Each request has one workflow: that of the deepest user path; at the same path that of the model, then of the
          provider, then of the path alone. The workflow of all requests comes last.
        </p>
        <div class="plain-table-box" tabIndex={0} role="group" aria-label="Active workflows">
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">Scope</th>
                <th scope="col">Name</th>
                <th scope="col">Switched off</th>
                <th scope="col">Guardrails</th>
                <th scope="col" data-align="end">
                  Version
                </th>
                <th scope="col">Since</th>
              </tr>
            </thead>
            <tbody>
              {active.map((row) => (
                <WorkflowLine key={row.id} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      </Panel>
      {isOpen && (
        <WorkflowDialog
          title="New workflow"
          draft={emptyDraft}
          active={active}
          onClose={() => setOpen(false)}
          onDone={(id) => {
            setOpen(false);
            onChange();
            if (id !== undefined) navigate(pageHref('workflows', { workflow: id }));
          }}
        />
      )}
    </>
  );
}

function WorkflowLine({ row }: { readonly row: Workflow }) {
  const off = features.filter(({ name }) => !row.workflow_payload.features[name]);
  return (
    <tr>
      <th scope="row">
        <a href={pageHref('workflows', { workflow: row.id })}>
          <Recorded text={scopeTitle(row.scope)} />
        </a>
      </th>
      <td>
        <Recorded text={row.name} /> {row.managed_default === true && <Badge tone="plain">default</Badge>}
      </td>
      <td>{off.length === 0 ? '–' : off.map(({ title }) => title).join(', ')}</td>
      <td>
        {row.compile_error !== undefined && (
          <Badge tone="bad" title={row.compile_error}>
            cannot run
          </Badge>
        )}
        <StepNames payload={row.workflow_payload} />
      </td>
      <td data-align="end">{row.version}</td>
      <td class="wf-time">
        <Time at={row.created_at} />
      </td>
    </tr>
  );
}
