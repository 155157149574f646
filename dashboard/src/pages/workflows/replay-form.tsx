import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { navigate } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { currentRange } from '../../ui/range.ts';
import { RangePicker } from '../../ui/range-picker.tsx';
import { NumberInput } from '../../ui/schema-inputs.tsx';
import { ErrorPanel } from '../../ui/states.tsx';
import { useChange } from '../../ui/use-change.ts';
import { pageHref } from './address.ts';
import { chosenGuardrail, GuardrailChoice } from './guardrail-choice.tsx';
import type { GuardrailDraft } from './guardrail-draft.ts';
import { replayBody, withoutStepsOf, withStepOf } from './replay-body.ts';
import { replayDraft } from './replay-draft.ts';
import { SettingsForm } from './settings-form.tsx';
import { StepsEditor } from './steps-editor.tsx';
import type { GuardrailData } from './use-guardrails.ts';
import { draftOf, emptyDraft, scopeOf, type WorkflowDraft } from './workflow-draft.ts';
import { ScopeFields } from './workflow-fields.tsx';
import { isSameScope, type Phase, phases, scopeTitle } from './workflow-rows.ts';

const OTHER_SCOPE = 'other';

/** The draft, the requests, and the start of a run. */
export function ReplayForm({ data }: { readonly data: GuardrailData }) {
  const { guardrails: saved, types, workflows } = data;
  const { guardrail } = replayDraft.value;
  const possible = types.find(({ type }) => type === guardrail?.type)?.phases ?? [];
  const workflow = guarded(replayDraft.value.workflow ?? usualWorkflow(data, guardrail, possible));
  const isEmpty = phases.every((phase) => workflow.steps[phase].length === 0);
  const range = currentRange('7d');
  const [userPath, setUserPath] = useState('');
  const [limits, setLimits] = useState<Limits>({});
  const { error, isSending, send } = useChange(() => {});
  const change = (next: { workflow?: WorkflowDraft; guardrail?: GuardrailDraft | undefined }) => {
    replayDraft.value = { workflow, guardrail, ...next };
  };
  const chooseGuardrail = (value: string) => {
    const chosen = chosenGuardrail(value, { saved, types });
    const ofBefore = guardrail !== undefined && !saved.some(({ name }) => name === guardrail.name);
    const rest = ofBefore ? withoutStepsOf(workflow, guardrail.name) : workflow;
    const offered = types.find(({ type }) => type === chosen?.type)?.phases ?? [];
    change({ guardrail: chosen, workflow: chosen === undefined ? rest : withStepOf(rest, chosen.name, offered) });
  };
  const run = () =>
    send(async () => {
      const { from, to } = range;
      const { sample, maxCost, maxRequests } = limits;
      const json = replayBody(workflow, guardrail, { from, to, userPath, sample, maxCost, maxRequests });
      const { id } = await sendChange({ method: 'POST', of: '/admin/guardrails/replay', json });
      navigate(pageHref('replay', { run: id }));
    });
  const active = workflows.find(({ scope }) => isSameScope(scope, scopeOf(workflow)));
  return (
    <Panel title="Run a draft over recorded requests" actions={<RangePicker range={range} />}>
      <form
        class="wf-form"
        onSubmit={(event) => {
          event.preventDefault();
          run();
        }}
      >
        <p class="wf-note">
          Shows what the draft would have done with the requests of{' '}
          {range.name === 'custom' ? 'the range' : 'the time range'} at the top right. Nothing is changed, and nothing
          is sent to clients.
        </p>
        <div class="wf-row">
          <GuardrailChoice
            label="Draft guardrail"
            value={guardrail === undefined ? '' : choiceOf(guardrail, saved)}
            saved={saved.filter(({ managed }) => !managed)}
            types={types}
            none="None: saved guardrails only"
            savedPrefix="Changed: "
            onChange={chooseGuardrail}
          />
          <SelectField
            label="Runs in the workflow of"
            value={active?.id ?? OTHER_SCOPE}
            choices={[
              ...workflows.map(({ id, scope }) => ({ value: id, title: scopeTitle(scope) })),
              { value: OTHER_SCOPE, title: 'Another scope' },
            ]}
            onChange={(id) => {
              const row = workflows.find((one) => one.id === id);
              const next = row === undefined ? { ...emptyDraft, userPath: '/' } : draftOf(row);
              change({ workflow: guardrail === undefined ? next : withStepOf(next, guardrail.name, possible) });
            }}
          />
          <TextField
            label="Only requests of this user path and below"
            placeholder="all"
            value={userPath}
            onInput={(path) => setUserPath(path.trim())}
          />
        </div>
        {active === undefined && <ScopeFields draft={workflow} onChange={(next) => change({ workflow: next })} />}
        {guardrail !== undefined && (
          <SettingsForm draft={guardrail} types={types} onChange={(next) => change({ guardrail: next })} />
        )}
        <StepsEditor
          draft={workflow}
          own={guardrail === undefined ? [] : [{ name: guardrail.name, phases: possible }]}
          onChange={(next) => change({ workflow: next })}
        />
        <LimitFields limits={limits} onChange={setLimits} />
        {error !== undefined && <ErrorPanel error={error} />}
        <div class="wf-actions">
          <Button look="main" type="submit" disabled={isSending || isEmpty}>
            Run the draft
          </Button>
          {isEmpty && <span class="wf-muted">Choose a draft guardrail, or add a guardrail to a phase.</span>}
        </div>
      </form>
    </Panel>
  );
}

/** A draft whose guardrails are off would have nothing to evaluate. */
function guarded(workflow: WorkflowDraft): WorkflowDraft {
  return { ...workflow, features: { ...workflow.features, guardrails: true } };
}

/** The workflow of all requests. */
function usualWorkflow(
  { workflows }: GuardrailData,
  guardrail: GuardrailDraft | undefined,
  possible: readonly Phase[],
): WorkflowDraft {
  const row = workflows.find(({ scope_type: type }) => type === 'global');
  const workflow = row === undefined ? emptyDraft : draftOf(row);
  return guardrail === undefined ? workflow : withStepOf(workflow, guardrail.name, possible);
}

function choiceOf({ name, type }: GuardrailDraft, saved: GuardrailData['guardrails']): string {
  return saved.some((one) => one.name === name) ? `saved:${name}` : `type:${type}`;
}

interface Limits {
  readonly maxRequests?: number | undefined;
  readonly sample?: number | undefined;
  readonly maxCost?: number | undefined;
}

function LimitFields({ limits, onChange }: { readonly limits: Limits; readonly onChange: (limits: Limits) => void }) {
  return (
    <details>
      <summary>Limits, and guardrails that call a model or a server</summary>
      <p class="wf-note">
        Guardrails that call a model or a server run only on a sample, evenly spread over the range. Their calls cost
        money.
      </p>
      <div class="wf-row">
        <NumberInput
          label="Most requests"
          placeholder="10000"
          least={1}
          value={limits.maxRequests}
          onChange={(maxRequests) => onChange({ ...limits, maxRequests })}
        />
        <NumberInput
          label="Sample (requests)"
          placeholder="0: they do not run"
          least={0}
          value={limits.sample}
          onChange={(sample) => onChange({ ...limits, sample })}
        />
        <NumberInput
          label="Highest cost of the sample (US dollars)"
          placeholder="any"
          least={0}
          value={limits.maxCost}
          onChange={(maxCost) => onChange({ ...limits, maxCost })}
        />
      </div>
    </details>
  );
}
