import { Button } from '../../ui/button.tsx';
import { useProblem } from '../../ui/change-dialog.tsx';
import { TextField } from '../../ui/fields.tsx';
import { NumberInput } from '../../ui/schema-inputs.tsx';
import { type DraftTarget, movedTarget, withNewTarget } from './virtual-model-draft.ts';

interface TargetFieldsProps {
  readonly targets: readonly DraftTarget[];
  readonly withWeights: boolean;
  readonly suggestions: readonly string[];
  readonly onChange: (targets: readonly DraftTarget[]) => void;
}

/** The targets as rows to add, remove and reorder. */
export function TargetFields({ targets, withWeights, suggestions, onChange }: TargetFieldsProps) {
  return (
    <fieldset class="schema-group">
      <legend>Targets, in their order</legend>
      {targets.map((target, place) => (
        <TargetRow
          key={target.key}
          {...{ target, place, withWeights, suggestions }}
          count={targets.length}
          onChange={(next) => onChange(targets.with(place, next))}
          onMove={(by) => onChange(movedTarget(targets, place, by))}
          onRemove={() => onChange(targets.toSpliced(place, 1))}
        />
      ))}
      <Button onClick={() => onChange(withNewTarget(targets))}>Add a target</Button>
    </fieldset>
  );
}

interface TargetRowProps extends Pick<TargetFieldsProps, 'withWeights' | 'suggestions'> {
  readonly target: DraftTarget;
  readonly place: number;
  readonly count: number;
  readonly onChange: (target: DraftTarget) => void;
  readonly onMove: (by: -1 | 1) => void;
  readonly onRemove: () => void;
}

function TargetRow(props: TargetRowProps) {
  const { target, place, count, withWeights, suggestions, onChange, onMove, onRemove } = props;
  const problems = [
    useProblem(`targets.${place}`),
    useProblem(`targets.${place}.model`),
    useProblem(`targets.${place}.provider`),
  ];
  const weightProblem = useProblem(`targets.${place}.weight`);
  return (
    <div class="models-target">
      <TextField
        label={`Target ${place + 1}`}
        placeholder="provider/model"
        required
        value={target.text}
        suggestions={suggestions}
        onInput={(text) => onChange({ ...target, text })}
        problem={problems.find((problem) => problem !== undefined)}
      />
      {withWeights && (
        <NumberInput
          label={`Weight ${place + 1}`}
          placeholder="1"
          least={0}
          class="models-weight"
          value={target.weight}
          onChange={(weight) => onChange({ ...target, weight })}
          problem={weightProblem}
        />
      )}
      <span class="models-target-actions">
        <Button label={`Move target ${place + 1} up`} disabled={place === 0} onClick={() => onMove(-1)}>
          <span aria-hidden="true">↑</span>
        </Button>
        <Button label={`Move target ${place + 1} down`} disabled={place === count - 1} onClick={() => onMove(1)}>
          <span aria-hidden="true">↓</span>
        </Button>
        <Button label={`Remove target ${place + 1}`} disabled={count === 1} onClick={onRemove}>
          <span aria-hidden="true">✕</span>
        </Button>
      </span>
    </div>
  );
}
