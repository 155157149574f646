/** `/admin/provider-credentials`: the providers that administrators set up, next to those of the configuration. */

import type { FastifyRequest } from 'fastify';
import type { CheckAddresses } from '../../commands/credentials/check-address.ts';
import {
  type Credential,
  type CredentialCommand,
  credentialDecider,
  credentialStream,
} from '../../commands/credentials/credential.ts';
import { credentialSchema, credentialTypes } from '../../commands/credentials/credential-fields.ts';
import { type SealerSource, saveCommand } from '../../commands/credentials/sealed-credentials.ts';
import { executeCommand } from '../../commands/handle-command.ts';
import { refusals } from '../../commands/refusal.ts';
import type { EventLog } from '../../events/log.ts';
import type { StoredCredentials } from '../../projections/provider-credentials.ts';
import type { RunningProjection } from '../../projections/runner.ts';
import type { Routes } from '../api/route-schema.ts';
import { eventContextOf } from '../server.ts';
import { ifMatch, sendETag } from './conditional.ts';
import { type ManagedProvider, managedRow, storedRow } from './credential-rows.ts';
import { readBody } from './read-body.ts';

export interface ProviderCredentialsOptions {
  readonly log: EventLog;
  readonly stored: Pick<RunningProjection<StoredCredentials>, 'state' | 'whenProcessed'>;
  readonly sealers: SealerSource;
  /** Refuses addresses at which no provider is allowed. @throws Refusal 400 */
  readonly checkAddresses: CheckAddresses;
  /** Providers of the configuration, which are changed there. */
  readonly managed: readonly ManagedProvider[];
  /** Applies the stored credentials to the running gateway. */
  follow(): Promise<void>;
  /** By name, why a provider that was set up is not in force. */
  problems(): ReadonlyMap<string, string>;
}

export function registerProviderCredentials(admin: Routes, options: ProviderCredentialsOptions): void {
  const { log, stored, sealers, checkAddresses, problems } = options;
  const managed = new Map(options.managed.map((one) => [one.name, one]));
  const route = { exposeHeadRoute: false, config: { access: 'global-admin' } } as const;
  const shown = { exposeHeadRoute: false, config: { access: 'global-admin', etag: true } } as const;
  const change = { config: { access: 'global-admin', ifMatch: '/provider-credentials/:name' } } as const;

  /** The row of the provider with that name; undefined when there is none. */
  const rowOf = (name: string) => {
    const declared = managed.get(name);
    if (declared !== undefined) return managedRow(declared);
    const credential = stored.state.get(name);
    return credential === undefined ? undefined : storedRow(credential, problems().get(name));
  };

  const execute = async (name: string, command: CredentialCommand, request: FastifyRequest) => {
    const stream = credentialStream(name);
    const ifRevision = ifMatch(request);
    const handled = await executeCommand<Credential | undefined, CredentialCommand>(credentialDecider, command, {
      log,
      stream,
      ifRevision,
    });
    if (handled.position !== undefined) await stored.whenProcessed(handled.position);
    await options.follow();
    return handled;
  };

  const refuseManaged = (name: string): void => {
    if (!managed.has(name)) return;
    const message = `The provider '${name}' is part of the configuration, and changed there.`;
    throw refusals.invalidRequest(message, 'name');
  };

  admin.get('/provider-credentials', route, () => {
    const names = [...new Set([...managed.keys(), ...stored.state.keys()])].sort();
    return names.map(rowOf);
  });

  admin.get('/provider-credentials/types', route, () => credentialTypes);

  admin.get<{ Params: { name: string } }>('/provider-credentials/:name', shown, (request, reply) => {
    const { name } = request.params;
    const row = rowOf(name);
    if (row === undefined) throw refusals.notFound('provider', name);
    if ('revision' in row) sendETag(reply, row.revision);
    return row;
  });

  admin.put('/provider-credentials', change, async (request, reply) => {
    const body = readBody(request, credentialSchema);
    refuseManaged(body.name);
    const command = saveCommand(body, sealers, eventContextOf(request));
    await checkAddresses(body);
    const { revision } = await execute(body.name, command, request);
    sendETag(reply, revision);
    return rowOf(body.name);
  });

  admin.delete<{ Params: { name: string } }>('/provider-credentials/:name', change, async (request, reply) => {
    const { name } = request.params;
    refuseManaged(name);
    await execute(name, { kind: 'remove', name, context: eventContextOf(request) }, request);
    return reply.code(204).send();
  });
}
