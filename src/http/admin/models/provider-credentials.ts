/** `/admin/provider-credentials`: the providers that administrators set up, next to those of the configuration. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import {
  type Credential,
  type CredentialCommand,
  credentialDecider,
  credentialStream,
} from '../../../commands/credentials/credential.ts';
import {
  type CheckAddresses,
  credentialSchema,
  credentialTypeSchema,
  credentialTypes,
  MASK,
  ownFields,
  readUrl,
  urlSchemes,
} from '../../../commands/credentials/credential-fields.ts';
import { type SealerSource, saveCommand } from '../../../commands/credentials/sealed-credentials.ts';
import { executeCommand } from '../../../commands/handle-command.ts';
import { refusals } from '../../../commands/refusal.ts';
import type { EventLog } from '../../../events/log.ts';
import type { Saved, SavedObjects } from '../../../projections/administered.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { eventContextOf } from '../../server.ts';
import { ifMatch, sendETag } from '../conditional.ts';
import { savedMembers, sendObject } from '../resource.ts';

// Stored provider credentials as rows of the admin API: their settings, with every secret masked.

/** A provider of the configuration. */
interface ManagedProvider {
  readonly name: string;
  readonly type: string;
  readonly baseUrl: string;
  readonly apiKeys: readonly string[];
  readonly models: readonly { readonly id: string }[];
  readonly modelsMode: string;
  readonly options: Readonly<Record<string, string>>;
  readonly proxyUrl: string | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;
}

const credentialRow = z
  .object({
    name: z.string(),
    type: z.string(),
    api_keys: z.array(z.string()).optional().describe('A mask for each key'),
    base_url: z.string().optional(),
    proxy_url: z.string().optional(),
    headers: z.record(z.string(), z.string()).optional().describe('A mask for each value'),
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
function storedRow(saved: Saved<Credential>, problem: string | undefined) {
  const { name, type, apiKeys, baseUrl, proxyUrl, models, modelsMode, options, enabled } = saved.value;
  return {
    name,
    type,
    api_keys: masked(apiKeys),
    base_url: baseUrl,
    ...options,
    proxy_url: proxyUrl,
    models: listed(models),
    models_mode: modelsMode,
    session_sticky_keys: false,
    enabled,
    managed: false,
    problem,
    ...savedMembers(saved),
  };
}

function managedRow(provider: ManagedProvider) {
  const { name, type, apiKeys, baseUrl, models, modelsMode, options, proxyUrl, headers } = provider;
  return {
    name,
    type,
    api_keys: masked(apiKeys),
    base_url: readUrl(baseUrl)?.shown ?? MASK,
    ...ownSettings(type, options),
    proxy_url: proxyUrl && (proxyUrl === 'none' ? proxyUrl : (readUrl(proxyUrl, urlSchemes.proxy_url)?.shown ?? MASK)),
    headers: headers && Object.fromEntries(Object.keys(headers).map((header) => [header, MASK])),
    models: listed(models.map(({ id }) => id)),
    models_mode: modelsMode,
    session_sticky_keys: false,
    enabled: true,
    managed: true,
    revision: undefined,
  };
}

function masked(keys: readonly string[]): readonly string[] | undefined {
  return listed(keys.map(() => MASK));
}

function listed(list: readonly string[]): readonly string[] | undefined {
  return list.length === 0 ? undefined : list;
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

interface ProviderCredentialsOptions {
  readonly log: EventLog;
  readonly stored: Pick<RunningProjection<SavedObjects<Credential>>, 'state' | 'whenProcessed'>;
  readonly sealers: SealerSource;
  /** Refuses addresses at which no provider is allowed. @throws Refusal 400 */
  readonly checkAddresses: CheckAddresses;
  /** Providers of the configuration, which are changed there; read for each request. */
  readonly managed: readonly ManagedProvider[];
  /** Applies the stored credentials to the running gateway. */
  follow(): Promise<void>;
  /** By name, why a provider that was set up is not in force. */
  problems(): ReadonlyMap<string, string>;
}

const ofOneProvider = pathParameters({ name: 'Name of the provider' });

const listCredentials = globalAdmin('listProviderCredentials', 'List the providers that are set up', {
  exposeHeadRoute: false,
  description: 'Secrets are masked. Providers of the configuration are included, and cannot be changed here.',
  response: { 200: jsonAnswer('All providers, by name', z.array(credentialRow)) },
});

const listTypes = globalAdmin('listProviderCredentialTypes', 'List the types of providers and their settings', {
  exposeHeadRoute: false,
  response: { 200: jsonAnswer('All types, by name', z.array(credentialTypeSchema)) },
});

const getCredential = globalAdmin('getProviderCredential', 'Get one provider that is set up', {
  exposeHeadRoute: false,
  etag: true,
  params: ofOneProvider,
  response: { 200: jsonAnswer('The provider; without `ETag` when it is part of the configuration', credentialRow) },
  errors: [404],
});

const change = { ifMatch: '/provider-credentials/:name' } as const;

const saveCredential = globalAdmin('saveProviderCredential', 'Set up a provider, or replace its settings', {
  ...change,
  description:
    'Takes effect immediately. Omitted settings are removed; a secret that is sent as its mask keeps its stored value ' +
    'at the same place. Secrets are encrypted before they are recorded.',
  body: credentialSchema,
  example: { name: 'openai', type: 'openai', api_keys: ['sk-example'] },
  response: { 200: jsonAnswer('The provider', credentialRow) },
});

const deleteCredential = globalAdmin('deleteProviderCredential', 'Delete a provider', {
  ...change,
  description: 'New requests are no longer sent to it; requests in flight are completed.',
  params: ofOneProvider,
  response: { 204: emptyAnswer('The provider is deleted') },
  errors: [404],
});

export function registerProviderCredentials(admin: Routes, options: ProviderCredentialsOptions): void {
  const { log, stored, sealers, checkAddresses, problems } = options;
  const managed = () => new Map(options.managed.map((one) => [one.name, one]));

  /** The row of the provider with that name; undefined when there is none. */
  const rowOf = (name: string) => {
    const declared = managed().get(name);
    if (declared !== undefined) return managedRow(declared);
    const saved = stored.state.byKey.get(name);
    return saved && storedRow(saved, problems().get(name));
  };

  const execute = (name: string, command: CredentialCommand, request: FastifyRequest) => {
    const { whenProcessed } = stored;
    const options = { log, stream: credentialStream(name), ifRevision: ifMatch(request), whenProcessed };
    return executeCommand<Credential | undefined, CredentialCommand>(credentialDecider, command, options);
  };

  const refuseManaged = (name: string): void => {
    if (!managed().has(name)) return;
    const message = `The provider '${name}' is declared in the configuration and can be changed only there.`;
    throw refusals.invalidRequest(message, 'name');
  };

  admin.get('/provider-credentials', listCredentials, () => {
    const names = [...new Set([...managed().keys(), ...stored.state.byKey.keys()])].sort();
    return names.map(rowOf);
  });

  admin.get('/provider-credentials/types', listTypes, () => credentialTypes);

  admin.get('/provider-credentials/:name', getCredential, (request, reply) => {
    const { name } = request.params;
    return sendObject(reply, rowOf(name), 'provider', name);
  });

  admin.put('/provider-credentials', saveCredential, async (request, reply) => {
    const { body } = request;
    refuseManaged(body.name);
    const command = saveCommand(body, sealers, eventContextOf(request));
    await checkAddresses(body);
    const { revision } = await execute(body.name, command, request);
    await options.follow();
    sendETag(reply, revision);
    return rowOf(body.name);
  });

  admin.delete('/provider-credentials/:name', deleteCredential, async (request, reply) => {
    const { name } = request.params;
    refuseManaged(name);
    await execute(name, { kind: 'remove', name, context: eventContextOf(request) }, request);
    await options.follow();
    return reply.code(204).send();
  });
}
