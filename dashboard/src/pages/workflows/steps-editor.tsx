import { useState } from 'preact/hooks';
import { useAnswer } from '../../api/use-answer.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { Button } from '../../ui/button.tsx';
import { useProblem } from '../../ui/change-dialog.tsx';
import { CheckField, SelectField } from '../../ui/fields.tsx';
import { addStep, isTogether, moveStep, removeStep, setTogether } from './step-list.ts';
import type { DraftFieldsProps } from './workflow-fields.tsx';
import { type Phase, phases, phaseTitles, type Step } from './workflow-rows.ts';

interface Offered {
  readonly name: string;
  readonly phases: readonly Phase[];
}

interface StepsEditorProps extends DraftFieldsProps {
  /** Guardrails that the draft defines itself. */
  readonly own?: readonly Offered[];
}

/** The guardrails of each phase: add, remove, and their order. */
export function StepsEditor({ draft, onChange, own = [] }: StepsEditorProps) {
  const { data, error } = useAnswer('/admin/workflows/guardrails');
  const problem = useProblem('workflow_payload.steps');
  const saved = (data ?? []).filter(({ name }) => !own.some((one) => one.name === name));
  const offered: readonly Offered[] = [...own, ...saved];
  return (
    <fieldset class="wf-group">
      <legend>Guardrails by phase, in the order in which they run</legend>
      {!draft.features.guardrails && <p class="wf-muted">They do not run while the feature Guardrails is off.</p>}
      {error !== undefined && <p class="wf-muted">Guardrails cannot be listed: {error.message}</p>}
      {phases.map((phase) => (
        <PhaseSteps
          key={phase}
          phase={phase}
          steps={draft.steps[phase]}
          offered={offered.filter((one) => one.phases.includes(phase)).map(({ name }) => name)}
          onChange={(steps) => onChange({ ...draft, steps: { ...draft.steps, [phase]: steps } })}
        />
      ))}
      {problem !== undefined && <p class="field-problem">{problem}</p>}
    </fieldset>
  );
}

interface PhaseStepsProps {
  readonly phase: Phase;
  readonly steps: readonly Step[];
  readonly offered: readonly string[];
  readonly onChange: (steps: readonly Step[]) => void;
}

function PhaseSteps({ phase, steps, offered, onChange }: PhaseStepsProps) {
  const free = offered.filter((name) => !steps.some(({ ref }) => ref === name));
  return (
    <section class="wf-steps" aria-label={phaseTitles[phase]}>
      <h3>{phaseTitles[phase]}</h3>
      {steps.length > 0 && (
        <ol>
          {steps.map(({ ref }, place) => (
            <li key={ref}>
              <span class="wf-step-name">
                <Recorded text={ref} />
              </span>
              <span class="wf-step-actions">
                {place > 0 && (
                  <CheckField
                    label="with the one before"
                    checked={isTogether(steps, place)}
                    onChange={(together) => onChange(setTogether(steps, place, together))}
                  />
                )}
                <Button
                  label={`Move ${ref} up (${phase})`}
                  disabled={place === 0}
                  onClick={() => onChange(moveStep(steps, place, -1))}
                >
                  ↑
                </Button>
                <Button
                  label={`Move ${ref} down (${phase})`}
                  disabled={place === steps.length - 1}
                  onClick={() => onChange(moveStep(steps, place, 1))}
                >
                  ↓
                </Button>
                <Button label={`Remove ${ref} (${phase})`} onClick={() => onChange(removeStep(steps, place))}>
                  Remove
                </Button>
              </span>
            </li>
          ))}
        </ol>
      )}
      <AddStep key={free.join()} phase={phase} free={free} onAdd={(name) => onChange(addStep(steps, name))} />
    </section>
  );
}

interface AddStepProps {
  readonly phase: Phase;
  readonly free: readonly string[];
  readonly onAdd: (name: string) => void;
}

function AddStep({ phase, free, onAdd }: AddStepProps) {
  const [chosen, setChosen] = useState(free[0] ?? '');
  if (free.length === 0) return <p class="wf-muted">No further guardrail can run in this phase.</p>;
  return (
    <div class="wf-add">
      <SelectField
        label={`Guardrail for ${phaseTitles[phase]}`}
        hideLabel
        value={chosen}
        choices={free.map((name) => ({ value: name, title: name }))}
        onChange={setChosen}
      />
      <Button label={`Add to ${phaseTitles[phase]}`} onClick={() => onAdd(chosen)}>
        Add
      </Button>
    </div>
  );
}
