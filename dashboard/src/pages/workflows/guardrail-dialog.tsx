import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import { NumberInput } from '../../ui/schema-inputs.tsx';
import { currentGuardrail } from './current-guardrail.ts';
import {
  type Guardrail,
  type GuardrailDraft,
  type GuardrailType,
  guardrailBodyOf,
  guardrailDraftOf,
  newGuardrail,
  newSettings,
} from './guardrail-draft.ts';
import { SettingsForm } from './settings-form.tsx';

interface GuardrailDialogProps {
  /** Undefined for a new one. */
  readonly row?: Guardrail;
  readonly types: readonly GuardrailType[];
  readonly onClose: () => void;
  readonly onDone: (name: string) => void;
}

/** Creates or changes a guardrail. */
export function GuardrailDialog({ row, types, onClose, onDone }: GuardrailDialogProps) {
  const [draft, setDraft] = useState<GuardrailDraft>(() =>
    row === undefined ? newGuardrail(types[0] ?? { type: '', defaults: {}, source: '' }) : guardrailDraftOf(row),
  );
  return (
    <ChangeDialog
      title={row === undefined ? 'New guardrail' : `Change the guardrail "${row.name}"`}
      submitLabel="Save the guardrail"
      place="side"
      revision={row === undefined ? 'none' : row.revision}
      canSubmit={draft.name.trim() !== ''}
      save={(ifMatch) => sendChange({ method: 'PUT', of: '/admin/guardrails', json: guardrailBodyOf(draft), ifMatch })}
      readCurrent={() => currentGuardrail(draft.name.trim())}
      mine={() => guardrailBodyOf(draft)}
      onClose={onClose}
      onDone={() => onDone(draft.name.trim())}
    >
      <Basics draft={draft} types={types} isNew={row === undefined} onChange={setDraft} />
      <SettingsForm draft={draft} types={types} onChange={setDraft} />
      <Failures draft={draft} onChange={setDraft} />
      {row !== undefined && (
        <p class="wf-effect">Workflows that name it use the new settings from the next request on.</p>
      )}
    </ChangeDialog>
  );
}

interface PartProps {
  readonly draft: GuardrailDraft;
  readonly onChange: (draft: GuardrailDraft) => void;
}

interface BasicsProps extends PartProps {
  readonly types: readonly GuardrailType[];
  readonly isNew: boolean;
}

function Basics({ draft, types, isNew, onChange }: BasicsProps) {
  const type = types.find((one) => one.type === draft.type);
  const problem = { name: useProblem('name'), type: useProblem('type'), description: useProblem('description') };
  return (
    <>
      {isNew && (
        <TextField
          label="Name"
          value={draft.name}
          onInput={(name) => onChange({ ...draft, name })}
          problem={problem.name}
        />
      )}
      <SelectField
        label="Type"
        value={draft.type}
        choices={types.map((one) => ({ value: one.type, title: one.label }))}
        onChange={(name) => {
          const chosen = types.find((one) => one.type === name);
          if (chosen !== undefined) onChange({ ...draft, type: name, config: newSettings(chosen) });
        }}
        problem={problem.type}
      />
      {type !== undefined && (
        <p class="wf-muted">
          {type.description} Phases: {type.phases.join(', ')}.
        </p>
      )}
      <TextField
        label="Description"
        value={draft.description}
        onInput={(description) => onChange({ ...draft, description })}
        problem={problem.description}
      />
    </>
  );
}

function Failures({ draft, onChange }: PartProps) {
  const problem = { path: useProblem('user_path'), timeout: useProblem('timeout_ms') };
  return (
    <fieldset class="wf-group">
      <legend>Failures and own calls</legend>
      <div class="wf-row">
        <SelectField
          label="If it fails"
          value={draft.failMode}
          choices={[
            { value: 'closed', title: 'End the request with an error (closed)' },
            { value: 'open', title: 'Skip it (open)' },
          ]}
          onChange={(failMode) => onChange({ ...draft, failMode })}
        />
        <NumberInput
          label="Time limit (ms)"
          placeholder="none"
          least={0}
          value={draft.timeoutMs}
          onChange={(timeoutMs) => onChange({ ...draft, timeoutMs })}
          problem={problem.timeout}
        />
        <TextField
          label="User path of its own calls"
          placeholder="that of the request"
          value={draft.userPath}
          onInput={(userPath) => onChange({ ...draft, userPath: userPath.trim() })}
          problem={problem.path}
        />
      </div>
    </fieldset>
  );
}
