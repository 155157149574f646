import { useState } from 'preact/hooks';
import { isPast } from '../../app/as-of.ts';
import { navigate } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { Badge } from '../../ui/status-badge.tsx';
import { pageHref, parameter } from './address.ts';
import { GuardrailDetail } from './guardrail-detail.tsx';
import { GuardrailDialog } from './guardrail-dialog.tsx';
import type { Guardrail, GuardrailType } from './guardrail-draft.ts';
import { type GuardrailData, useGuardrails } from './use-guardrails.ts';
import { usesGuardrail } from './workflow-rows.ts';

export function GuardrailsTab() {
  const { data, error, since, reload } = useGuardrails();
  const name = parameter('guardrail');
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since} />;
  if (name === undefined) return <GuardrailList data={data} onChange={reload} />;
  const row = data.guardrails.find((one) => one.name === name);
  return (
    <>
      <p class="wf-back">
        <a href={pageHref('guardrails')}>All guardrails</a>
      </p>
      {row === undefined ? (
        <EmptyState title={`There is no guardrail "${name}"${isPast.value ? ' at this time' : ''}.`} />
      ) : (
        <GuardrailDetail key={name} row={row} data={data} onChange={reload} />
      )}
    </>
  );
}

interface GuardrailListProps {
  readonly data: GuardrailData;
  readonly onChange: () => void;
}

function GuardrailList({ data, onChange }: GuardrailListProps) {
  const [isOpen, setOpen] = useState(false);
  const { guardrails, types } = data;
  return (
    <>
      <Panel
        title="Guardrails"
        actions={
          !isPast.value && (
            <Button look="main" onClick={() => setOpen(true)}>
              New guardrail
            </Button>
          )
        }
      >
        {guardrails.length === 0 ? (
          <EmptyState title="There are no guardrails.">
            <p>A guardrail reads texts of requests and answers: it changes or blocks them, answers itself, or warns.</p>
          </EmptyState>
        ) : (
          <div class="plain-table-box" tabIndex={0} role="group" aria-label="Guardrails">
            <table class="plain-table">
              <thead>
                <tr>
                  <th scope="col">Name</th>
                  <th scope="col">Type</th>
                  <th scope="col">Can run in</th>
                  <th scope="col">Settings</th>
                  <th scope="col">Used by workflows of</th>
                  <th scope="col">Changed</th>
                </tr>
              </thead>
              <tbody>
                {guardrails.map((row) => (
                  <GuardrailLine key={row.name} row={row} types={types} data={data} />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Panel>
      {isOpen && (
        <GuardrailDialog
          types={types}
          onClose={() => setOpen(false)}
          onDone={(name) => {
            setOpen(false);
            onChange();
            navigate(pageHref('guardrails', { guardrail: name }));
          }}
        />
      )}
    </>
  );
}

interface GuardrailLineProps {
  readonly row: Guardrail;
  readonly types: readonly GuardrailType[];
  readonly data: GuardrailData;
}

function GuardrailLine({ row, types, data }: GuardrailLineProps) {
  const users = data.workflows.filter((workflow) => usesGuardrail(workflow, row.name));
  return (
    <tr>
      <th scope="row">
        <a href={pageHref('guardrails', { guardrail: row.name })}>
          <Recorded text={row.name} />
        </a>{' '}
        {row.managed && (
          <Badge tone="plain" title="Declared in the configuration, where alone it can be changed.">
            configuration
          </Badge>
        )}
      </th>
      <td>{types.find(({ type }) => type === row.type)?.label ?? row.type}</td>
      <td>
        {row.problem === undefined ? (
          row.phases.join(', ')
        ) : (
          <Badge tone="bad" title={row.problem}>
            cannot run
          </Badge>
        )}
      </td>
      <td class="wf-summary">
        <Recorded text={row.summary ?? '–'} />
      </td>
      <td>{users.length === 0 ? 'none' : users.map(({ scope_display: scope }) => scope).join(', ')}</td>
      <td class="wf-time">{row.updated_at === undefined ? '–' : <Time at={row.updated_at} />}</td>
    </tr>
  );
}
