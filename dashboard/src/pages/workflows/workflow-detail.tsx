import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useAnswer } from '../../api/use-answer.ts';
import { isPast } from '../../app/as-of.ts';
import { hrefOf, navigate } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref } from './address.ts';
import { startDraft } from './replay-draft.ts';
import { StepLists } from './step-lists.tsx';
import { VersionsPanel } from './versions-panel.tsx';
import { WorkflowDialog } from './workflow-dialog.tsx';
import { draftOf } from './workflow-draft.ts';
import { appliesWithout, features, isSameScope, phases, scopeTitle, stepsOf, type Workflow } from './workflow-rows.ts';

interface WorkflowDetailProps {
  /** Of any version. */
  readonly id: string;
  readonly active: readonly Workflow[];
  readonly onChange: () => void;
}

export function WorkflowDetail({ id, active, onChange }: WorkflowDetailProps) {
  const at = `/admin/workflows/${encodeURIComponent(id)}`;
  const { data, error, since, reload } = useAnswer({ of: '/admin/workflows/{id}', at });
  return (
    <>
      <p class="wf-back">
        <a href={pageHref('workflows')}>All workflows</a>
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} />}
      {data !== undefined && <Detail row={data} active={active} onChange={onChange} />}
    </>
  );
}

type OpenDialog = 'none' | 'edit' | 'deactivate';

function Detail({ row, active, onChange }: { readonly row: Workflow } & Omit<WorkflowDetailProps, 'id'>) {
  const [open, setOpen] = useState<OpenDialog>('none');
  const close = () => setOpen('none');
  const isActive = active.some(({ id }) => id === row.id);
  const isGlobalScope = row.scope_type === 'global';
  return (
    <div class="wf-panels">
      <Panel
        title={`Workflow of ${scopeTitle(row.scope)}`}
        actions={
          !isPast.value && (
            <div class="wf-actions">
              <Button look="main" onClick={() => setOpen('edit')}>
                New version from this
              </Button>
              <Button
                onClick={() => {
                  startDraft({ workflow: draftOf(row) });
                  navigate(pageHref('replay'));
                }}
              >
                Replay a draft of it
              </Button>
              {isActive && !isGlobalScope && <Button onClick={() => setOpen('deactivate')}>Deactivate</Button>}
            </div>
          )
        }
      >
        <WorkflowFacts row={row} isActive={isActive} />
        {row.compile_error !== undefined && (
          <p class="wf-problem" role="alert">
            Its guardrails cannot run, and its requests are refused: <Recorded text={row.compile_error} />
          </p>
        )}
      </Panel>
      <Panel title="Features">
        <ul class="wf-features">
          {features.map(({ name, title, off }) => (
            <li key={name}>
              <FeatureState row={row} name={name} /> {title}
              {!row.effective_features[name] && <span class="wf-muted"> ({off})</span>}
            </li>
          ))}
        </ul>
      </Panel>
      <Panel title="Guardrails by phase">
        <StepLists payload={row.workflow_payload} />
      </Panel>
      <VersionsPanel row={row} />
      {open === 'edit' && (
        <WorkflowDialog
          title={`New version for ${scopeTitle(row.scope)}`}
          draft={draftOf(row)}
          active={active}
          onClose={close}
          onDone={(id) => {
            close();
            onChange();
            const current = active.find(({ scope }) => isSameScope(scope, row.scope))?.id;
            navigate(pageHref('workflows', { workflow: id ?? current ?? row.id }));
          }}
        />
      )}
      {open === 'deactivate' && <DeactivateDialog row={row} active={active} onClose={close} onDone={onChange} />}
    </div>
  );
}

function FeatureState({ row, name }: { readonly row: Workflow; readonly name: keyof Workflow['effective_features'] }) {
  if (row.effective_features[name]) return <Badge tone="ok">on</Badge>;
  if (!row.workflow_payload.features[name]) return <Badge tone="plain">off</Badge>;
  return (
    <Badge tone="warn" title="The configuration of the gateway switches it off.">
      off in the configuration
    </Badge>
  );
}

function WorkflowFacts({ row, isActive }: { readonly row: Workflow; readonly isActive: boolean }) {
  const { cache } = row.workflow_payload;
  return (
    <dl class="wf-facts">
      <dt>State</dt>
      <dd>
        {isActive ? <Badge tone="ok">active</Badge> : <Badge tone="plain">replaced or deactivated</Badge>} version{' '}
        {row.version}, since <Time at={row.created_at} />
      </dd>
      <dt>Name</dt>
      <dd>
        <Recorded text={row.name} />
      </dd>
      {row.description !== undefined && (
        <>
          <dt>Description</dt>
          <dd>
            <Recorded text={row.description} />
          </dd>
        </>
      )}
      {cache !== undefined && (
        <>
          <dt>Response cache</dt>
          <dd>
            shared by {cache.scope.replace('_', ' ')}
            {cache.ttl_seconds !== undefined && `, kept for ${cache.ttl_seconds} s`}
            {cache.tool_calls === true && ', with tool calls'}
          </dd>
        </>
      )}
      <dt>Id</dt>
      <dd class="wf-id">
        <code>{row.id}</code> <CopyButton text={row.id} what="id" />
      </dd>
      <dt>Requests</dt>
      <dd>
        <a href={hrefOf('/audit', { workflow: row.id })}>Requests of this version</a>
      </dd>
    </dl>
  );
}

function runsGuardrails({ effective_features: on, workflow_payload: payload }: Workflow): boolean {
  return on.guardrails && phases.some((phase) => stepsOf(payload, phase).length > 0);
}

interface DeactivateDialogProps {
  readonly row: Workflow;
  readonly active: readonly Workflow[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function DeactivateDialog({ row, active, onClose, onDone }: DeactivateDialogProps) {
  const next = appliesWithout(row, active);
  return (
    <ConfirmDialog
      title={`Deactivate the workflow of ${scopeTitle(row.scope)}?`}
      effect={
        next === undefined ? (
          <p>No other workflow includes its requests.</p>
        ) : (
          <>
            <p>
              Its requests then follow the workflow of <strong>{scopeTitle(next.scope)}</strong> (
              <Recorded text={next.name} />, version {next.version}) from the next request on, unless a workflow of a
              deeper path matches.{' '}
              {runsGuardrails(next) ? 'The guardrails of that workflow:' : 'It runs no guardrails.'}
            </p>
            {runsGuardrails(next) && <StepLists payload={next.workflow_payload} />}
          </>
        )
      }
      confirmLabel="Deactivate the workflow"
      run={() =>
        sendChange({
          ...{ method: 'POST', of: '/admin/workflows/{id}/deactivate' },
          at: `/admin/workflows/${encodeURIComponent(row.id)}/deactivate`,
        })
      }
      onClose={onClose}
      onDone={() => {
        onClose();
        onDone();
        navigate(pageHref('workflows'));
      }}
    />
  );
}
