import { useState } from 'preact/hooks';
import { sendChange } from '../../api/send-change.ts';
import { useLoaded } from '../../api/use-answer.ts';
import { Button } from '../../ui/button.tsx';
import { ChangeDialog } from '../../ui/change-dialog.tsx';
import { CheckField, TextField } from '../../ui/fields.tsx';
import { Panel } from '../../ui/panel.tsx';
import { EmptyState, ErrorPanel, Pending } from '../../ui/states.tsx';
import { readTagging, type TaggingSettings } from './read-tagging.ts';
import { inputsOf, newRule, type Rule, type RuleInput, rulesOf } from './tagging-rules.ts';

/** The request headers that become labels. */
export function LabelsTab() {
  const { data, error, since, cancel, reload } = useLoaded(readTagging, 'tagging settings');
  const [edited, setEdited] = useState<TaggingSettings | undefined>(undefined);
  const close = () => setEdited(undefined);
  return (
    <Panel
      title="Headers that become labels"
      actions={data !== undefined && <Button onClick={() => setEdited(data)}>Change…</Button>}
    >
      <p class="settings-note">
        The values of these request headers are labels of the request: usage and budgets can be grouped by them.
      </p>
      {error !== undefined && <ErrorPanel error={error} onRetry={reload} />}
      {data === undefined && error === undefined && <Pending since={since} onCancel={cancel} />}
      {data !== undefined && <Rules rules={data.rules} />}
      {edited !== undefined && (
        <RulesDialog
          settings={edited}
          onClose={close}
          onDone={() => {
            close();
            reload();
          }}
        />
      )}
    </Panel>
  );
}

function Rules({ rules }: { readonly rules: readonly Rule[] }) {
  if (rules.length === 0) {
    return (
      <EmptyState title="No header becomes a label.">
        <p>Add one with Change, or declare it in the configuration as TAGGING_HEADER_1.</p>
      </EmptyState>
    );
  }
  return (
    <section class="plain-table-box" tabIndex={0} aria-label="Headers that become labels">
      <table class="plain-table">
        <thead>
          <tr>
            <th scope="col">Header</th>
            <th scope="col">Removed prefix</th>
            <th scope="col">Separator</th>
            <th scope="col">Sent to providers</th>
            <th scope="col">Set in</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <tr key={rule.header}>
              <td>
                <code>{rule.header}</code>
              </td>
              <td>{rule.prefix === undefined ? '–' : <code>{rule.prefix}</code>}</td>
              <td>
                <code>{rule.delimiter}</code>
              </td>
              <td>{rule.do_not_pass ? 'no' : 'yes'}</td>
              <td>{rule.managed === true ? 'configuration' : 'here'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface RulesDialogProps {
  readonly settings: TaggingSettings;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

function RulesDialog({ settings, onClose, onDone }: RulesDialogProps) {
  const [inputs, setInputs] = useState<readonly RuleInput[]>(() => {
    const known = inputsOf(settings.rules);
    return known.length === 0 ? [newRule] : known;
  });
  const change = (place: number, changes: Partial<RuleInput>) =>
    setInputs(inputs.map((one, at) => (at === place ? { ...one, ...changes } : one)));
  const headers = rulesOf(inputs);
  return (
    <ChangeDialog
      title="Headers that become labels"
      submitLabel="Save"
      revision={settings.revision}
      save={(ifMatch) => sendChange({ method: 'PUT', of: '/admin/tagging/settings', json: { headers }, ifMatch })}
      readCurrent={async () => {
        const { revision, rules } = await readTagging();
        return { revision, version: rulesOf(inputsOf(rules)) };
      }}
      mine={() => headers}
      onClose={onClose}
      onDone={onDone}
    >
      {inputs.map((input, place) => (
        <RuleFields
          key={place}
          number={place + 1}
          input={input}
          onChange={(changes) => change(place, changes)}
          onRemove={() => setInputs(inputs.filter((_, at) => at !== place))}
        />
      ))}
      <div>
        <Button onClick={() => setInputs([...inputs, newRule])}>Add a header</Button>
      </div>
    </ChangeDialog>
  );
}

interface RuleFieldsProps {
  readonly number: number;
  readonly input: RuleInput;
  readonly onChange: (changes: Partial<RuleInput>) => void;
  readonly onRemove: () => void;
}

function RuleFields({ number, input, onChange, onRemove }: RuleFieldsProps) {
  return (
    <fieldset class="settings-rule">
      <legend class="visually-hidden">Header {number}</legend>
      <TextField label="Header" value={input.header} onInput={(header) => onChange({ header })} />
      <TextField label="Removed prefix" value={input.prefix} onInput={(prefix) => onChange({ prefix })} />
      <TextField
        label="Separator"
        value={input.delimiter}
        placeholder=","
        onInput={(delimiter) => onChange({ delimiter })}
      />
      <CheckField
        label="Not sent to providers"
        checked={input.doNotPass}
        onChange={(doNotPass) => onChange({ doNotPass })}
      />
      <Button label={`Remove header ${number}`} onClick={onRemove}>
        Remove
      </Button>
    </fieldset>
  );
}
