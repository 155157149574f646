/**
 * The records of the authorizations of the gateway at MCP servers: each event has the whole state of one, with its secrets sealed.
 * A change expects the revision of what it is based on, so of two gateways that make it at the same time one does.
 */
import { z } from 'zod';
import type { Sealer } from '../commands/credentials/credential.ts';
import { publicUrl } from '../commands/credentials/credential-fields.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { mcpAuthorizationRemoved, mcpAuthorizationSaved } from '../events/catalogue/mcp-server.ts';
import { type EpochMs, type EventContext, type StreamName, streamName } from '../events/event.ts';
import { type EventLog, LogUnavailable, newestEvent, WrongExpectedRevision, whenNewerEvent } from '../events/log.ts';
import type { Saved, SavedObjects } from '../projections/administered.ts';
import type { RunningProjection } from '../projections/runner.ts';
import type { OAuthClient, OAuthServer, Tokens } from './oauth-client.ts';

export type Authorization = z.infer<typeof mcpAuthorizationSaved.data>;

const savedTokens = z.object({ access: z.string(), refresh: z.string().optional() });

interface AuthorizationRecordsOptions {
  readonly log: EventLog;
  readonly view: Pick<RunningProjection<SavedObjects<Authorization>>, 'state' | 'whenProcessed'>;
  readonly sealers: SealerSource;
}

export class AuthorizationRecords {
  readonly #options: AuthorizationRecordsOptions;
  readonly #secrets = new WeakMap<Authorization, readonly string[]>();

  constructor(options: AuthorizationRecordsOptions) {
    this.#options = options;
  }

  /** By id. */
  get all(): ReadonlyMap<string, Saved<Authorization>> {
    return this.#options.view.state.byKey;
  }

  /** Of one server, by user path. */
  of(slug: string): Saved<Authorization>[] {
    const all = [...this.all.values()].filter(({ value }) => value.slug === slug);
    return all.sort(({ value: a }, { value: b }) => (a.id < b.id ? -1 : 1));
  }

  /** Undefined also for an authorization at the address that the server had before. */
  current(id: string, server: OAuthServer): Authorization | undefined {
    const value = this.all.get(id)?.value;
    return value?.resource === publicUrl(server.url) ? value : undefined;
  }

  /** Resolves when the view has a newer state of the authorization, or after half a second. */
  async whenChanged(id: string, revision: bigint): Promise<void> {
    const { log, view } = this.#options;
    await whenNewerEvent(streamOf(id), revision, log);
    await view.whenProcessed(await log.head());
  }

  /** @param issuedAt when the gateway got the tokens */
  withTokens(
    { problem: _, ...value }: Authorization,
    { access, refresh, expiresAt }: Tokens,
    issuedAt: EpochMs,
  ): Authorization {
    const text = JSON.stringify({ access, ...(refresh !== undefined && { refresh }) });
    return {
      ...withoutTokens(value),
      sealedTokens: this.seal(value.id, 'tokens', text),
      issuedAt,
      ...(expiresAt !== undefined && { expiresAt }),
    };
  }

  /** @throws Error */
  tokensOf({ id, sealedTokens }: Authorization, { slug }: OAuthServer): z.infer<typeof savedTokens> {
    if (sealedTokens === undefined) throw new Error(`the MCP server '${slug}' needs an authorization`);
    return savedTokens.parse(JSON.parse(this.open(id, 'tokens', sealedTokens)));
  }

  clientOf({ id, client }: Authorization): OAuthClient | undefined {
    if (client?.sealedSecret === undefined) return client && { id: client.id };
    return { id: client.id, secret: this.open(id, 'client', client.sealedSecret) };
  }

  /** The tokens and the client secret of an authorization. Empty also when they cannot be opened, so are not sent. */
  secretsOf(id: string): readonly string[] {
    const value = this.all.get(id)?.value;
    if (value === undefined) return [];
    const known = this.#secrets.get(value);
    if (known !== undefined) return known;
    try {
      const { sealedTokens } = value;
      const tokens: Partial<z.infer<typeof savedTokens>> =
        sealedTokens === undefined ? {} : savedTokens.parse(JSON.parse(this.open(id, 'tokens', sealedTokens)));
      const all = [tokens.access, tokens.refresh, this.clientOf(value)?.secret];
      const secrets = all.filter((one) => one !== undefined);
      this.#secrets.set(value, secrets);
      return secrets;
    } catch {
      return [];
    }
  }

  /** @throws Refusal 503 */
  seal(id: string, field: string, secret: string): string {
    return orUnavailable(() => this.#options.sealers.toSeal()).seal(sealingPlace(id), field, secret);
  }

  /** @throws Error with the reason */
  open(id: string, field: string, sealed: string): string {
    return this.#options.sealers.toOpen().open(sealingPlace(id), field, sealed);
  }

  /** @param revision default: the newest one. @returns the new revision. @throws Refusal 409, 503 */
  save(value: Authorization, context: EventContext, revision?: bigint): Promise<bigint> {
    return this.#append(value.id, mcpAuthorizationSaved.create(value, context), revision);
  }

  /** @throws Refusal 409, 503 */
  async remove(id: string, context: EventContext): Promise<void> {
    await this.#append(id, mcpAuthorizationRemoved.create({ id }, context));
  }

  async #append(
    id: string,
    event: ReturnType<typeof mcpAuthorizationSaved.create> | ReturnType<typeof mcpAuthorizationRemoved.create>,
    revision?: bigint,
  ): Promise<bigint> {
    const { log, view } = this.#options;
    const stream = streamOf(id);
    const expectedRevision = revision ?? (await newestEvent(stream, log))?.revision ?? 'noStream';
    try {
      const { position, revisions } = await log.append([{ stream, events: [event], expectedRevision }]);
      await view.whenProcessed(position);
      return revisions[0] ?? 0n;
    } catch (error) {
      if (error instanceof LogUnavailable) throw refusals.logUnavailable(error);
      if (error instanceof WrongExpectedRevision) throw refusals.changedMeanwhile(stream);
      throw error;
    }
  }
}

/** Undefined when the authorization was changed by another request, or through another gateway. */
export async function unlessChanged(saved: Promise<bigint>): Promise<bigint | undefined> {
  try {
    return await saved;
  } catch (error) {
    if (error instanceof Refusal && error.status === 409) return undefined;
    throw error;
  }
}

export function withoutTokens({
  sealedTokens: _,
  issuedAt: __,
  expiresAt: ___,
  ...value
}: Authorization): Authorization {
  return value;
}

export function authorizationId(slug: string, userPath: string | undefined): string {
  return `${slug}${userPath ?? ''}`;
}

function streamOf(id: string): StreamName {
  return streamName('mcp-authorization', id);
}

/** The place to which the secrets of an authorization are sealed. No provider can have this name. */
function sealingPlace(id: string): string {
  return `mcp-authorization:${id}`;
}

/** @throws Refusal 503 */
function orUnavailable(sealer: () => Sealer): Sealer {
  try {
    return sealer();
  } catch (error) {
    throw refusals.featureUnavailable(
      `Nothing can be stored: ${error instanceof Error ? error.message : String(error)}.`,
    );
  }
}
