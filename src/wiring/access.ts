/** Wiring of keys, users and policies: authentication and access to models. */
import { hostname } from 'node:os';
import { whyNotAdministrator } from '../commands/access/authority.ts';
import { createAuthorizer, EffectiveModels } from '../commands/access/authorizer.ts';
import { type KeyDirectory, whySecretNotAccepted } from '../commands/access/key-directory.ts';
import type { ModelPolicies } from '../commands/access/model-access.ts';
import { RefusedAccess } from '../commands/access/refused-access.ts';
import { ObjectsInForce } from '../commands/administered.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import type { Caller } from '../commands/model-request/model-request.ts';
import { openClientSecret } from '../commands/realtime/client-secret.ts';
import { declaredPolicies, type UserPolicies, type UserPolicy, userLists } from '../commands/users/user-policy.ts';
import { VirtualModelDirectory } from '../commands/virtual-models/directory.ts';
import type { Config } from '../config/config.ts';
import type { EventLog } from '../events/log.ts';
import { registerAccess } from '../http/admin/admin-scope.ts';
import type { AsOf } from '../http/admin/as-of.ts';
import { registerAuthKeys } from '../http/admin/keys/auth-keys.ts';
import { registerUsers } from '../http/admin/keys/users.ts';
import type { Routes } from '../http/api/route-schema.ts';
import { createAuthenticator, isAcceptedFrom } from '../http/auth.ts';
import { type ArrivedRequest, clientsBehind } from '../http/client-address.ts';
import { parseUserPath } from '../http/request-head.ts';
import type { SavedObjects } from '../projections/administered.ts';
import { keysView, usersView } from '../projections/keys.ts';
import type { ProjectionRunner } from '../projections/runner.ts';
import { virtualModelsView } from '../projections/workflows.ts';
import type { Registry } from '../providers/registry.ts';
import type { VirtualModels } from './virtual-models.ts';

export interface AccessControlOptions {
  readonly config: Config;
  readonly masterKey: string | undefined;
  /** Of client secrets. */
  readonly sealers: SealerSource;
  readonly log: EventLog;
  readonly projections: ProjectionRunner;
  /** Whether every change that another gateway has confirmed is in force here. */
  readonly isCurrent: () => boolean;
  readonly onError: (error: unknown) => void;
}

export type KnownAccess = ReturnType<typeof knownAccess>;
export type AccessControl = ReturnType<typeof controlAccess>;

/** Keys and users read from the log. Reading starts at once. */
export function knownAccess(options: AccessControlOptions) {
  const { config, masterKey, sealers, log, projections, isCurrent, onError } = options;
  const keys = projections.run(keysView);
  const users = projections.run(usersView);
  const refused = new RefusedAccess({ log, onError });
  const directory: KeyDirectory = {
    byHash: (hash) => keys.state.withHash(hash),
    get imported() {
      return keys.state.imported;
    },
    byId: (id) => keys.state.byId.get(id),
  };
  const clients = clientsBehind(config.server.proxies);
  const authenticator = createAuthenticator({
    masterKey,
    clients,
    metricsKey: config.metrics.key,
    get corsOrigins() {
      return config.server.corsOrigins;
    },
    hostNames: [config.server.host, hostname(), ...config.server.allowedHosts],
    userPathHeader: config.userPathHeaderEnabled ? config.userPathHeader : undefined,
    keys: directory,
    openClientSecret: (text) => openClientSecret(text, sealers),
    isCurrent,
    refused: (reason, keyId) => refused.note(reason, keyId),
  });
  const caughtUp = Promise.all([keys.caughtUp, users.caughtUp]);
  caughtUp.catch(() => {});
  return {
    keys,
    users,
    directory,
    clients,
    authenticator,
    /** Whether the admin API would still accept this caller: keys expire, and can be deactivated or restricted. */
    isStillAdministrator({ key, secretHash }: Caller, request: ArrivedRequest) {
      if (key === undefined) return true;
      const now = directory.byId(key.id);
      if (now === undefined || secretHash === undefined || !isAcceptedFrom(now, clients, request)) return false;
      const hasPreviousSecret = secretHash !== now.secretHash;
      if (whyNotAdministrator({ key: now, hasPreviousSecret }) !== undefined) return false;
      return whySecretNotAccepted(now, secretHash, Date.now()) === undefined;
    },
    /** Resolves when all access events in the log have been read. */
    caughtUp,
    /** Records the refused keys that are not recorded yet. */
    stop: () => refused.stop(),
  };
}

/** @throws Error when the configuration declares an invalid policy */
export function controlAccess(
  { users }: Pick<KnownAccess, 'users'>,
  config: Config,
  registry: Pick<Registry, 'providers' | 'list'>,
  models: ModelPolicies,
) {
  const isProvider = (name: string) => registry.providers.some((provider) => provider.name === name);
  const declaredIn = ({ users: declaredUsers, providers }: Config) =>
    declaredPolicies(
      declaredUsers.map(({ path, ...policy }) => ({ ...policy, userPath: parseUserPath(path, 'path') })),
      (name) => isProvider(name) || providers.some((provider) => provider.name === name),
    );
  const declared = declaredIn(config);
  /** @param saved now, or at another time */
  const policiesOf = (saved: { readonly state: SavedObjects<UserPolicy> }): UserPolicies =>
    new ObjectsInForce(saved, declared);
  const policies = policiesOf(users);
  const lists = userLists(policies);
  const checked = { users: lists, models };
  return {
    access: createAuthorizer(checked),
    policies,
    policiesOf,
    /** @returns a function that replaces the declared policies by those of `next`. @throws Error that names an invalid one */
    prepareReload(next: Config): () => void {
      const replacing = declaredIn(next);
      return () => policies.redeclare(replacing);
    },
    lists,
    isProvider,
    /** The models that each path may use, now; for one answer. */
    effective: () => new EffectiveModels(registry.list(), checked),
  };
}

export function registerAccessRoutes(
  admin: Routes,
  { keys, users }: KnownAccess,
  { policies, effective, isProvider }: AccessControl,
  log: EventLog,
  asOf: ReadPoliciesAsOf,
): void {
  registerAccess(admin);
  registerAuthKeys(admin, { log, keys, effective, asOf, isProvider });
  registerUsers(admin, { log, users, keys, policies, effective, asOf, isProvider });
}

// The limits of users and models at another time: the current rules over what administrators had set by then.

interface PoliciesAsOfOptions {
  readonly asOf: AsOf;
  readonly registry: Pick<Registry, 'list'>;
  readonly control: Pick<AccessControl, 'policiesOf'>;
  readonly virtualModels: Pick<VirtualModels, 'facts'>;
}

type ReadPoliciesAsOf = ReturnType<typeof createPoliciesAsOf>;

/**
 * @returns a function that resolves with the policies set at the moment of an `as_of`, over the configuration and the models
 * of now; with undefined without one. @throws Refusal 400, as `AsOf.moment` does
 */
export function createPoliciesAsOf({ asOf, registry, control, virtualModels }: PoliciesAsOfOptions) {
  return async (given: string | undefined) => {
    const moment = await asOf.moment(given);
    if (moment === undefined) return undefined;
    const [keys, users, stored] = await Promise.all([
      asOf.fold(keysView, moment),
      asOf.fold(usersView, moment),
      asOf.fold(virtualModelsView, moment),
    ]);
    const policies = control.policiesOf({ state: users });
    const lists = userLists(policies);
    const models = new VirtualModelDirectory({ ...virtualModels.facts, stored: { state: stored } });
    const effective = new EffectiveModels(registry.list(), { users: lists, models: models.policies });
    return { moment, keys, policies, lists, virtualModels: models, effective };
  };
}
