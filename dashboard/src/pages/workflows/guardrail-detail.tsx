import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { isPast } from '../../app/as-of.ts';
import { hrefOf, navigate } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { SafeText } from '../../content/text/safe-text.tsx';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref } from './address.ts';
import { guardrailBasis } from './current-guardrail.ts';
import { GuardrailDialog } from './guardrail-dialog.tsx';
import { type Guardrail, type GuardrailType, guardrailDraftOf } from './guardrail-draft.ts';
import { startDraft } from './replay-draft.ts';
import type { GuardrailData } from './use-guardrails.ts';
import { scopeTitle, usesGuardrail, type Workflow } from './workflow-rows.ts';

interface GuardrailDetailProps {
  readonly row: Guardrail;
  readonly data: GuardrailData;
  readonly onChange: () => void;
}

export function GuardrailDetail({ row, data, onChange }: GuardrailDetailProps) {
  const [open, setOpen] = useState<'none' | 'edit' | 'delete'>('none');
  const close = () => setOpen('none');
  const users = data.workflows.filter((workflow) => usesGuardrail(workflow, row.name));
  const type = data.types.find((one) => one.type === row.type);
  return (
    <div class="wf-panels">
      <Panel
        title={`Guardrail ${row.name}`}
        actions={
          !isPast.value && (
            <div class="wf-actions">
              {!row.managed && (
                <Button look="main" onClick={() => setOpen('edit')}>
                  Change
                </Button>
              )}
              <Button onClick={() => navigate(pageHref('test', { guardrail: row.name }))}>Test</Button>
              <Button
                onClick={() => {
                  startDraft({ guardrail: guardrailDraftOf(row) });
                  navigate(pageHref('replay'));
                }}
              >
                Replay a change
              </Button>
              {!row.managed && <Button onClick={() => setOpen('delete')}>Delete</Button>}
            </div>
          )
        }
      >
        <GuardrailFacts row={row} type={type} users={users} />
      </Panel>
      <Panel title="Settings">
        <Settings row={row} type={type} />
      </Panel>
      {open === 'edit' && (
        <GuardrailDialog
          row={row}
          types={data.types}
          onClose={close}
          onDone={() => {
            close();
            onChange();
          }}
        />
      )}
      {open === 'delete' && (
        <ConfirmDialog
          title={`Delete the guardrail "${row.name}"?`}
          effect={<DeleteEffect name={row.name} users={users} />}
          confirmLabel="Delete the guardrail"
          basis={guardrailBasis(row)}
          run={(ifMatch) =>
            sendChange({ method: 'DELETE', of: '/admin/guardrails', json: { name: row.name }, ifMatch })
          }
          onClose={close}
          onDone={() => {
            close();
            onChange();
            navigate(pageHref('guardrails'));
          }}
        />
      )}
    </div>
  );
}

function DeleteEffect({ name, users }: { readonly name: string; readonly users: readonly Workflow[] }) {
  if (users.length === 0) return <p>No active workflow uses it. Its earlier definitions stay in the history.</p>;
  return (
    <>
      <p>
        {users.length === 1 ? 'An active workflow uses' : `${users.length} active workflows use`} "{name}". It can be
        deleted once new versions of them do without it:
      </p>
      <ul class="wf-links">
        {users.map(({ id, scope }) => (
          <li key={id}>
            <a href={pageHref('workflows', { workflow: id })}>
              <Recorded text={scopeTitle(scope)} />
            </a>
          </li>
        ))}
      </ul>
    </>
  );
}

interface GuardrailFactsProps {
  readonly row: Guardrail;
  readonly type: GuardrailType | undefined;
  readonly users: readonly Workflow[];
}

function GuardrailFacts({ row, type, users }: GuardrailFactsProps) {
  return (
    <dl class="wf-facts">
      <dt>Type</dt>
      <dd>
        {type?.label ?? row.type}: {type?.description ?? 'The type is not known to this gateway.'}
      </dd>
      {row.problem !== undefined && (
        <>
          <dt>Problem</dt>
          <dd class="wf-problem">
            <Recorded text={row.problem} />
          </dd>
        </>
      )}
      {row.description !== undefined && (
        <>
          <dt>Description</dt>
          <dd>
            <Recorded text={row.description} />
          </dd>
        </>
      )}
      <dt>Can run in</dt>
      <dd>{row.phases.join(', ')}</dd>
      <dt>If it fails</dt>
      <dd>
        {row.fail_mode === 'closed' ? 'the request ends with an error' : 'it is skipped'}
        {row.timeout_ms > 0 && `; it fails after ${row.timeout_ms} ms`}
      </dd>
      {row.user_path !== undefined && (
        <>
          <dt>Path of its own calls</dt>
          <dd>
            <Recorded text={row.user_path} />
          </dd>
        </>
      )}
      <dt>Used by</dt>
      <dd>
        {users.length === 0 && 'no active workflow'}
        {users.map(({ id, scope }, place) => (
          <span key={id}>
            {place > 0 && ', '}
            <a href={pageHref('workflows', { workflow: id })}>
              <Recorded text={scopeTitle(scope)} />
            </a>
          </span>
        ))}
      </dd>
      {row.updated_at !== undefined && (
        <>
          <dt>Changed</dt>
          <dd>
            <Time at={row.updated_at} />
          </dd>
        </>
      )}
      <dt>Declared in</dt>
      <dd>
        {row.managed ? <Badge tone="plain">the configuration, where alone it can be changed</Badge> : 'the admin API'}
      </dd>
      <dt>Requests</dt>
      <dd>
        <a href={hrefOf('/audit', { guardrail: row.name })}>Requests on which it acted</a>
      </dd>
    </dl>
  );
}

function Settings({ row, type }: { readonly row: Guardrail; readonly type: GuardrailType | undefined }) {
  const titles = new Map(type?.fields.map(({ key, label }) => [key, label]));
  const members = Object.entries(row.config).filter(([, value]) => value !== '' && value !== null);
  if (members.length === 0) return <p class="wf-muted">The defaults of the type.</p>;
  return (
    <dl class="wf-facts">
      {members.map(([key, value]) => (
        <>
          <dt key={`${key} title`}>{titles.get(key) ?? key}</dt>
          <dd key={key}>
            <SafeText text={textOf(value)} look="code" />
          </dd>
        </>
      ))}
    </dl>
  );
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every((one) => typeof one === 'string')) return value.join(', ');
  return JSON.stringify(value, undefined, 2);
}
