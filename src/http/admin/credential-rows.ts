/** Stored provider credentials as rows of the admin API: their settings, with every secret masked. */
import { z } from 'zod';
import { ownFields } from '../../commands/credentials/credential-fields.ts';
import { MASK, readUrl } from '../../commands/credentials/masked-url.ts';
import type { StoredCredential } from '../../projections/provider-credentials.ts';
import { timeText } from '../time-text.ts';

/** A provider of the configuration. */
export interface ManagedProvider {
  readonly name: string;
  readonly type: string;
  readonly baseUrl: string;
  readonly apiKeys: readonly string[];
  readonly models: readonly { readonly id: string }[];
  readonly modelsMode: string;
  readonly options: Readonly<Record<string, string>>;
}

export const credentialRow = z
  .object({
    name: z.string(),
    type: z.string(),
    api_keys: z.array(z.string()).optional().describe('A mask for each key'),
    base_url: z.string().optional(),
    proxy_url: z.string().optional(),
    models: z.array(z.string()).optional(),
    models_mode: z.string().optional(),
    session_sticky_keys: z.boolean(),
    enabled: z.boolean(),
    managed: z.boolean().describe('Part of the configuration, and read-only here'),
    problem: z.string().optional().describe('Why it is not in force'),
    created_at: z.iso.datetime().optional(),
    updated_at: z.iso.datetime().optional(),
    revision: z.string().optional(),
  })
  // The settings of the type.
  .catchall(z.string());

/** @param problem why an enabled credential is not in force */
export function storedRow(stored: StoredCredential, problem: string | undefined) {
  const { name, type, apiKeys, baseUrl, proxyUrl, models, modelsMode, options, enabled } = stored;
  return {
    name,
    type,
    ...masked(apiKeys),
    ...(baseUrl === undefined ? {} : { base_url: baseUrl }),
    ...options,
    ...(proxyUrl === undefined ? {} : { proxy_url: proxyUrl }),
    ...listed(models),
    ...(modelsMode === undefined ? {} : { models_mode: modelsMode }),
    session_sticky_keys: false,
    enabled,
    managed: false,
    ...(problem === undefined ? {} : { problem }),
    created_at: timeText(stored.createdAt),
    updated_at: timeText(stored.updatedAt),
    revision: stored.revision,
  };
}

export function managedRow({ name, type, apiKeys, baseUrl, models, modelsMode, options }: ManagedProvider) {
  return {
    name,
    type,
    ...masked(apiKeys),
    base_url: readUrl(baseUrl)?.shown ?? MASK,
    ...ownSettings(type, options),
    ...listed(models.map(({ id }) => id)),
    models_mode: modelsMode,
    session_sticky_keys: false,
    enabled: true,
    managed: true,
  };
}

function masked(keys: readonly string[]) {
  return keys.length === 0 ? {} : { api_keys: keys.map(() => MASK) };
}

function listed(models: readonly string[]) {
  return models.length === 0 ? {} : { models };
}

/** Options under the names of their fields. */
function ownSettings(type: string, options: Readonly<Record<string, string>>): Record<string, string> {
  const settings: Record<string, string> = {};
  for (const [field, option] of ownFields(type)) {
    const value = options[option];
    if (value !== undefined && value !== '') settings[field] = value;
  }
  return settings;
}
