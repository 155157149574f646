import { useState } from 'preact/hooks';
import { getAnswer } from '../../api/client.ts';
import { sendChange } from '../../api/send-change.ts';
import { ChangeDialog, useProblem } from '../../ui/change-dialog.tsx';
import { CheckField, SelectField, TextField } from '../../ui/fields.tsx';
import type { FormValue } from '../../ui/schema-fields.ts';
import { SchemaForm } from '../../ui/schema-form.tsx';
import { fieldsOfType, settingsOf, withoutSecrets } from './provider-fields.ts';
import type { Credential, CredentialType } from './types.ts';

interface ProviderDialogProps {
  /** Undefined for a new one. */
  readonly row: Credential | undefined;
  readonly types: readonly CredentialType[];
  /** Of all providers. */
  readonly names: readonly string[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Adds a provider or edits one. Its credential can be written and not read. */
export function ProviderDialog({ row, types, names, onClose, onDone }: ProviderDialogProps) {
  const [typeName, setTypeName] = useState(row?.type ?? 'openai');
  const type = types.find((one) => one.type === typeName) ?? types[0];
  const [givenName, setName] = useState<string | undefined>(row?.name);
  const [settings, setSettings] = useState<FormValue>(() => settingsOf(row, type));
  const [enabled, setEnabled] = useState(row?.enabled ?? true);
  const [revision] = useState(row === undefined ? 'none' : row.revision);
  if (type === undefined) return null;
  const name = givenName ?? freeName(type.type, names);
  const { usual, advanced } = fieldsOfType(type);
  const hasAdvanced = advanced.some(({ key }) => settings[key] !== undefined);
  return (
    <ChangeDialog
      title={row === undefined ? 'Add a provider' : `Edit the provider ${row.name}`}
      submitLabel={row === undefined ? 'Add the provider' : 'Save'}
      revision={revision}
      save={(ifMatch) =>
        sendChange({
          ...{ method: 'PUT', of: '/admin/provider-credentials', ifMatch },
          json: { name: name.trim(), type: type.type, enabled, ...settings },
        })
      }
      mine={() => ({ enabled, ...withoutSecrets(settings) })}
      readCurrent={async () => {
        const at = `/admin/provider-credentials/${encodeURIComponent(name.trim())}`;
        const current = await getAnswer({ of: '/admin/provider-credentials/{name}', at });
        const version = { enabled: current.enabled, ...withoutSecrets(settingsOf(current, type)) };
        return { revision: current.revision, version };
      }}
      canSubmit={name.trim() !== ''}
      onClose={onClose}
      onDone={onDone}
    >
      {row === undefined && (
        <>
          <SelectField
            label="Type"
            value={type.type}
            choices={types.map((one) => ({ value: one.type, title: one.type }))}
            onChange={(chosen) => {
              setTypeName(chosen);
              setSettings({});
            }}
          />
          <NameField value={name} onInput={setName} />
        </>
      )}
      <SchemaForm key={type.type} fields={usual} value={settings} onChange={setSettings} />
      <details open={hasAdvanced}>
        <summary>More settings</summary>
        <div class="models-more">
          <SchemaForm key={type.type} fields={advanced} value={settings} onChange={setSettings} />
        </div>
      </details>
      <CheckField label="Requests are sent to it" checked={enabled} onChange={setEnabled} />
    </ChangeDialog>
  );
}

function NameField({ value, onInput }: { readonly value: string; readonly onInput: (name: string) => void }) {
  return (
    <TextField
      label="Name"
      help="Clients name its models <name>/<model>."
      required
      value={value}
      onInput={onInput}
      problem={useProblem('name')}
    />
  );
}

/** The type, with a number when the name is taken. */
function freeName(type: string, names: readonly string[]): string {
  if (!names.includes(type)) return type;
  let number = 2;
  while (names.includes(`${type}-${number}`)) number += 1;
  return `${type}-${number}`;
}
