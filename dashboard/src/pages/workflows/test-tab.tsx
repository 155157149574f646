import { useState } from 'preact/hooks';
import type { paths } from '../../../generated/api';
import { sendChange } from '../../api/send-change.ts';
import { setQuery } from '../../app/router.ts';
import { Button } from '../../ui/button.tsx';
import { SelectField, TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { TextArea } from '../../ui/schema-inputs.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { useChange } from '../../ui/use-change.ts';
import { parameter } from './address.ts';
import { chosenGuardrail, GuardrailChoice } from './guardrail-choice.tsx';
import { guardrailBodyOf } from './guardrail-draft.ts';
import { SettingsForm } from './settings-form.tsx';
import { type TestAnswer, TestResult } from './test-result.tsx';
import { type GuardrailData, useGuardrails } from './use-guardrails.ts';
import { phases, phaseTitles } from './workflow-rows.ts';

type TestBody = paths['/admin/guardrails/test']['post']['requestBody']['content']['application/json'];
type Role = NonNullable<TestBody['role']>;

const roles: readonly Role[] = ['user', 'system', 'assistant', 'tool'];

/** Evaluates one text with one guardrail. */
export function TestTab() {
  const { data, error, since, reload } = useGuardrails();
  if (error !== undefined) return <ErrorPanel error={error} onRetry={reload} />;
  if (data === undefined) return <Pending since={since} />;
  if (data.guardrails.length + data.types.length === 0) return <EmptyState title="There are no guardrail types." />;
  const named = parameter('guardrail');
  const known = data.guardrails.some(({ name }) => name === named) ? named : data.guardrails[0]?.name;
  const first = known === undefined ? `type:${data.types[0]?.type}` : `saved:${known}`;
  return <TestForm data={data} first={first} />;
}

interface Sent {
  readonly text: string;
  readonly answer: TestAnswer;
}

function TestForm({ data, first }: { readonly data: GuardrailData; readonly first: string }) {
  const { guardrails: saved, types } = data;
  const [choice, setChoice] = useState(first);
  const [given, setDraft] = useState(() => chosenGuardrail(first, { saved, types }));
  const [isChanged, setChanged] = useState(false);
  const isSaved = choice.startsWith('saved:');
  const [phase, setPhase] = useState<NonNullable<TestBody['phase']>>('prompt');
  const [role, setRole] = useState<Role>('user');
  const [userPath, setUserPath] = useState('');
  const [text, setText] = useState('');
  const [result, setResult] = useState<Sent | undefined>(undefined);
  const { error, isSending, send } = useChange(() => {});
  const type = types.find((one) => one.type === given?.type);
  const offered = phases.filter((one) => type === undefined || type.phases.includes(one));
  const shownPhase = offered.includes(phase) ? phase : (offered[0] ?? 'prompt');
  const choose = (value: string) => {
    setChoice(value);
    setDraft(chosenGuardrail(value, { saved, types }));
    setChanged(false);
    setQuery({ guardrail: value.startsWith('saved:') ? value.slice('saved:'.length) : undefined });
  };
  const run = () =>
    send(async () => {
      if (given === undefined) return;
      const body: TestBody = {
        // A declared one has secrets that are known by its name alone.
        guardrail: isSaved && !isChanged ? given.name : guardrailBodyOf(given),
        ...{ phase: shownPhase, role, text },
        ...(userPath === '' ? {} : { user_path: userPath }),
      };
      const answer = await sendChange({ method: 'POST', of: '/admin/guardrails/test', json: body });
      setResult({ text, answer });
    });
  return (
    <div class="wf-panels">
      <Panel title="Test one text">
        <form
          class="wf-form"
          onSubmit={(event) => {
            event.preventDefault();
            run();
          }}
        >
          <div class="wf-row">
            <GuardrailChoice label="Guardrail" value={choice} saved={saved} types={types} onChange={choose} />
            <SelectField
              label="Phase"
              value={shownPhase}
              choices={offered.map((one) => ({ value: one, title: phaseTitles[one] }))}
              onChange={setPhase}
            />
            {shownPhase === 'prompt' && (
              <SelectField
                label="Role of the message"
                value={role}
                choices={roles.map((one) => ({ value: one, title: one }))}
                onChange={setRole}
              />
            )}
            <TextField label="User path" placeholder="/" value={userPath} onInput={setUserPath} />
          </div>
          <TextArea label="Text" rows={5} value={text} onInput={setText} />
          {given !== undefined && (
            <details open={!isSaved}>
              <summary>Settings for this test</summary>
              <SettingsForm
                draft={given}
                types={types}
                onChange={(draft) => {
                  setDraft(draft);
                  setChanged(true);
                }}
              />
            </details>
          )}
          <p class="wf-muted">
            Nothing is saved. A guardrail that calls a model or a server calls it, which may cost money.
          </p>
          {error !== undefined && <ErrorPanel error={error} />}
          <div class="wf-actions">
            <Button look="main" type="submit" disabled={isSending || text === '' || given === undefined}>
              {isSending ? 'Running…' : 'Test'}
            </Button>
          </div>
        </form>
      </Panel>
      {result !== undefined && <TestResult text={result.text} answer={result.answer} />}
    </div>
  );
}
