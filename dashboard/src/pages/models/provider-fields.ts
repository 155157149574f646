/** The settings of provider types as form fields. Pure. */
import type { FormValue, SchemaField } from '../../ui/schema-fields.ts';
import type { Credential, CredentialType } from './types.ts';

interface Wording {
  readonly label: string;
  readonly help?: string;
}

const wordings: Readonly<Record<string, Wording>> = {
  api_keys: {
    label: 'API keys',
    help: 'Stored encrypted and never shown again. Only the last of several can be removed; the others can be replaced.',
  },
  base_url: { label: 'Base URL' },
  models: { label: 'Models' },
  models_mode: {
    label: 'Use of the models above',
    help: 'fallback: when the provider returns no list. allowlist: these only. merge: these and its list.',
  },
  proxy_url: { label: 'Proxy URL' },
  api_version: { label: 'API version' },
};

export interface ProviderFields {
  readonly usual: readonly SchemaField[];
  readonly advanced: readonly SchemaField[];
}

export function fieldsOfType({ fields, default_base_url }: CredentialType): ProviderFields {
  const made = fields.map(({ name, required, options, advanced }) => {
    const wording = wordings[name] ?? { label: name.replaceAll('_', ' ') };
    const basics = {
      ...{ key: name, required, ...wording },
      ...(name === 'base_url' && default_base_url !== undefined ? { placeholder: default_base_url } : {}),
    };
    const field: SchemaField =
      options === undefined
        ? { ...basics, kind: name === 'api_keys' ? 'secrets' : name === 'models' ? 'list' : 'text' }
        : { ...basics, kind: 'choice', options: options.map((value) => ({ value, title: value })) };
    return { advanced, field };
  });
  const only = (advanced: boolean) => made.filter((one) => one.advanced === advanced).map(({ field }) => field);
  return { usual: only(false), advanced: only(true) };
}

/** The stored settings that the form edits, with the masks of secrets. */
export function settingsOf(row: Credential | undefined, type: CredentialType | undefined): FormValue {
  if (row === undefined || type === undefined) return {};
  return Object.fromEntries(type.fields.flatMap(({ name }) => (row[name] === undefined ? [] : [[name, row[name]]])));
}

/** The settings without secrets, for the view of a conflict. */
export function withoutSecrets({ api_keys, ...others }: FormValue): FormValue {
  return Array.isArray(api_keys) ? { ...others, api_keys: api_keys.map(() => '(not shown)') } : others;
}
