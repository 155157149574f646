/** The fields of a provider's settings, by its type, for the form of the dashboard and for the check. */
import { z } from 'zod';
import { type ProviderType, providerType, providerTypes } from '../../providers/types.ts';

const credentialField = z.object({
  name: z.string(),
  required: z.boolean(),
  advanced: z.boolean().describe('Most providers do not need it'),
  options: z.array(z.string()).readonly().optional(),
});

export const credentialTypeSchema = z.object({
  type: z.string(),
  default_base_url: z.string().optional(),
  fields: z.array(credentialField),
});

type CredentialField = z.infer<typeof credentialField>;
type CredentialType = z.infer<typeof credentialTypeSchema>;

const modelsModes = ['fallback', 'allowlist', 'merge'] as const;

/** The type's own settings: field name to the name of the provider's option. */
export function ownFields(type: string): ReadonlyMap<string, string> {
  const extra = providerType(type)?.extra ?? {};
  return new Map(Object.entries(extra).map(([name, option]) => [name.toLowerCase(), option]));
}

const allOwnFields = [...new Set(Object.keys(providerTypes).flatMap((type) => [...ownFields(type).keys()]))];

/** All types, by name. */
export const credentialTypes: readonly CredentialType[] = Object.entries(providerTypes)
  .map(([type, facts]) => ({
    type,
    ...(facts.defaultBaseUrl === undefined ? {} : { default_base_url: facts.defaultBaseUrl }),
    fields: fieldsOf(type, facts),
  }))
  .sort((a, b) => (a.type < b.type ? -1 : 1));

function fieldsOf(type: string, { keyless, requiresBaseUrl }: ProviderType): CredentialField[] {
  return [
    { name: 'api_keys', required: !keyless, advanced: false },
    { name: 'base_url', required: requiresBaseUrl, advanced: !requiresBaseUrl && !keyless },
    ...[...ownFields(type).keys()].map((name) => ({ name, required: false, advanced: name !== 'api_version' })),
    { name: 'models', required: false, advanced: true },
    { name: 'models_mode', required: false, advanced: true, options: modelsModes },
    { name: 'proxy_url', required: false, advanced: true },
  ];
}

const line = (most: number) => z.string().trim().max(most);
/** Text that is valid in an HTTP header. */
const headerText = z
  .union([line(1000), z.number()])
  .transform(String)
  .refine((text) => /^[\x20-\x7e]*$/.test(text), 'expected visible ASCII characters');
/** A key is put into a header unchanged. */
const key = line(8192).regex(/^[\x21-\x7e]+$/, 'expected a key, in visible ASCII characters without spaces');
const address = line(2048);

/** Typed without members of its own, because the table of types defines them. */
const own: object = Object.fromEntries(allOwnFields.map((name) => [name, headerText.optional()]));

/** The body of `PUT /admin/provider-credentials`. */
export const credentialSchema = z.strictObject({
  name: z.string(),
  type: z.string(),
  api_keys: z.array(key).max(100).optional().describe('A key that is sent as its mask keeps its stored value'),
  base_url: address.optional(),
  proxy_url: address.optional(),
  models: z.array(line(512).min(1)).max(10_000).optional(),
  models_mode: z.enum(modelsModes).optional(),
  session_sticky_keys: z.boolean().optional(),
  enabled: z.boolean().optional(),
  ...own,
});

export type CredentialBody = z.infer<typeof credentialSchema>;
