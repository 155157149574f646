/**
 * The authorizations of the gateway at MCP servers with OAuth. A grant and its tokens are on record, sealed, so that every
 * gateway on the log has them. A change of an authorization expects its revision: of several gateways one begins a refresh, and
 * a `state` is accepted once.
 */
import { createHash, randomBytes } from 'node:crypto';
import { z } from 'zod';
import type { Sealer } from '../commands/credentials/credential.ts';
import { publicUrl } from '../commands/credentials/credential-fields.ts';
import type { SealerSource } from '../commands/credentials/sealed-credentials.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import { mcpAuthorizationRemoved, mcpAuthorizationSaved } from '../events/catalogue/mcp-server.ts';
import {
  type EpochMs,
  type EventContext,
  pathsAbove,
  type StreamName,
  streamName,
  type UserPath,
} from '../events/event.ts';
import { type EventLog, LogUnavailable, newestEvent, WrongExpectedRevision, whenNewerEvent } from '../events/log.ts';
import type { Saved, SavedObjects } from '../projections/administered.ts';
import type { RunningProjection } from '../projections/runner.ts';
import type { McpServer } from './mcp-server.ts';
import type { OAuthClient, OAuthRequests, OAuthServer, Tokens } from './oauth-client.ts';
import { AuthorizationFailure, asFailure, attempt, badAnswer, oneLine, orBadAnswer } from './oauth-failure.ts';

type Authorization = z.infer<typeof mcpAuthorizationSaved.data>;

/** How long an administrator may take to grant access. */
const STATE_MS = 600_000;
/** After this time a gateway that has begun a refresh counts as ended. */
const REFRESH_MS = 30_000;
/** An access token is refreshed so long before its end, or for the last fifth of a shorter life. */
const EARLY_MS = 60_000;
/** After a refresh that failed, the next one. */
const RETRY_MS = 5000;
const MAX_AUTHORIZATIONS = 10_000;

const savedTokens = z.object({ access: z.string(), refresh: z.string().optional() });

const system: EventContext = { actor: 'system' };

interface AuthorizationsOptions {
  readonly log: EventLog;
  readonly view: Pick<RunningProjection<SavedObjects<Authorization>>, 'state' | 'whenProcessed'>;
  readonly sealers: SealerSource;
  readonly requests: OAuthRequests;
  readonly now: () => EpochMs;
}

/** What administrators see of an authorization. */
export interface AuthorizationFacts {
  readonly userPath: string | undefined;
  readonly status: 'pending' | 'authorized' | 'needs_authorization';
  readonly expiresAt: EpochMs | undefined;
  readonly problem: string | undefined;
}

export class Authorizations {
  readonly #options: AuthorizationsOptions;
  readonly #refreshes = new Map<string, Promise<string>>();
  /** By id: the last failure of a refresh, which is not repeated before `until`. */
  readonly #failed = new Map<string, { readonly until: EpochMs; readonly error: AuthorizationFailure }>();
  /** By id: when tokens were replaced because a server refused them. */
  readonly #replaced = new Map<string, EpochMs>();
  /** Tokens for client credentials: each gateway has its own, and needs no record of them. */
  readonly #own = new WeakMap<McpServer, { tokens: Promise<Tokens>; until: EpochMs }>();

  constructor(options: AuthorizationsOptions) {
    this.#options = options;
  }

  /**
   * The headers of a server with those of its token.
   * @param refused the value of `authorization` that the server has not accepted
   * @throws Error with the reason why there is no token
   */
  async headersFor(
    server: McpServer,
    userPath: UserPath | undefined,
    refused?: string,
  ): Promise<Readonly<Record<string, string>>> {
    if (!hasOAuth(server)) return server.headers;
    const not = refused?.replace(/^Bearer /, '');
    const token =
      server.oauth.grant === 'client_credentials'
        ? await this.#ownToken(server, not)
        : await this.#grantedToken(server, userPath, not);
    return { ...server.headers, authorization: `Bearer ${token}` };
  }

  /**
   * Begins a grant. The administrator continues at `url`, which leads back to `redirectUri` with a `state` that is accepted
   * once, within 10 minutes.
   * @throws Refusal 400, 409, 502, 503
   */
  async begin(
    server: McpServer,
    { userPath, redirectUri, context }: { userPath: UserPath | undefined; redirectUri: string; context: EventContext },
  ): Promise<{ readonly url: string; readonly expiresAt: EpochMs }> {
    if (!hasOAuth(server) || server.oauth.grant !== 'authorization_code') {
      throw refusals.invalidRequest(`The MCP server '${server.slug}' has no grant of administrators.`, 'slug');
    }
    if ((userPath !== undefined) !== server.oauth.perUserPath) {
      const what = server.oauth.perUserPath
        ? 'needs a user path, because each has its own authorization'
        : 'has one authorization for all user paths';
      throw refusals.invalidRequest(`The MCP server '${server.slug}' ${what}.`, 'user_path');
    }
    const id = authorizationId(server.slug, userPath);
    const before = this.#current(id, server);
    if (before === undefined && this.#options.view.state.byKey.size >= MAX_AUTHORIZATIONS) {
      throw refusals.invalidRequest(`There are ${MAX_AUTHORIZATIONS} authorizations; remove some first.`, null);
    }
    const sealer = orUnavailable(() => this.#options.sealers.toSeal());
    const state = randomBytes(32).toString('base64url');
    const expiresAt = this.#options.now() + STATE_MS;
    const { requests } = this.#options;
    const own = ownClient(server);
    const { at, known, client, url, verifier } = await orBadAnswer(
      server,
      attempt(server, [], async () => {
        const at = await requests.discover(server);
        const known = before?.issuer === at.issuer ? before : undefined;
        const registered = known?.client?.redirectUri === redirectUri ? this.#clientOf(known) : undefined;
        const client = own ?? registered ?? (await requests.register(at, redirectUri, server));
        return { at, known, client, ...(await requests.authorizationUrl(at, client, { redirectUri, state })) };
      }),
    );
    const place = sealingPlace(id);
    // Tokens of the same client stay in use until there are new ones.
    const isSame = known !== undefined && (own !== undefined || known.client?.id === client.id);
    const kept = isSame && {
      ...(known.sealedTokens !== undefined && { sealedTokens: known.sealedTokens }),
      ...(known.issuedAt !== undefined && { issuedAt: known.issuedAt }),
      ...(known.expiresAt !== undefined && { expiresAt: known.expiresAt }),
    };
    await this.#save(
      {
        id,
        slug: server.slug,
        ...(userPath !== undefined && { userPath }),
        resource: publicUrl(server.url),
        issuer: at.issuer,
        ...(at.indicator !== undefined && { indicator: at.indicator }),
        ...(own === undefined && {
          client: {
            id: client.id,
            ...(client.secret !== undefined && { sealedSecret: sealer.seal(place, 'client', client.secret) }),
            redirectUri,
          },
        }),
        pending: {
          stateHash: hashOf(state),
          sealedVerifier: sealer.seal(place, 'verifier', verifier),
          redirectUri,
          expiresAt,
        },
        ...kept,
      },
      context,
    );
    return { url, expiresAt };
  }

  /**
   * Completes a grant with the query with which the authorization server sent the administrator back.
   * @param serverOf the server in force
   * @throws Refusal 400 for a state that is unknown, used or late, and when access was not granted; 502
   */
  async complete(
    given: { readonly [name in 'state' | 'code' | 'iss' | 'error']: string | undefined },
    serverOf: (slug: string) => McpServer | undefined,
    context: EventContext,
  ): Promise<{ readonly slug: string; readonly userPath: string | undefined }> {
    const { pending, ...begun } = await this.#consume(given.state, context);
    const server = serverOf(begun.slug);
    const end = async (problem: string): Promise<never> => {
      await this.#save({ ...begun, problem }, context);
      throw refusals.invalidRequest(`Access to the MCP server '${begun.slug}' was not granted: ${problem}.`, null);
    };
    if (given.error !== undefined) return end(`the authorization server answered '${oneLine(given.error)}'`);
    if (given.code === undefined) return end('the authorization server sent no code');
    if (server === undefined || !hasOAuth(server) || publicUrl(server.url) !== begun.resource) {
      return end('the server has been changed meanwhile');
    }
    const verifier = this.#open(begun.id, 'verifier', pending.sealedVerifier);
    const client = ownClient(server) ?? this.#clientOf(begun);
    if (client === undefined) return end('the server has been changed meanwhile');
    const { code, iss } = given;
    const tokens = await attempt(server, [code, verifier, client.secret], () =>
      this.#options.requests.exchange(
        server,
        { issuer: begun.issuer, indicator: begun.indicator, client },
        { code, iss, verifier, redirectUri: pending.redirectUri },
      ),
    ).catch((error: unknown) => asFailure(error));
    if (tokens instanceof AuthorizationFailure) {
      await this.#save({ ...begun, problem: tokens.message }, context);
      throw badAnswer(server, tokens);
    }
    await this.#save(this.#withTokens(begun, tokens), context);
    this.#failed.delete(begun.id);
    return { slug: begun.slug, userPath: begun.userPath };
  }

  /** Gives up tokens. @param userPath undefined: all of the server. @returns how many authorizations there were */
  async forget(slug: string, userPath: UserPath | undefined, context: EventContext): Promise<number> {
    const of = this.#of(slug).filter(({ value }) => userPath === undefined || value.userPath === userPath);
    for (const { value } of of) await this.#append(value.id, mcpAuthorizationRemoved.create({ id: value.id }, context));
    return of.length;
  }

  /** Of one server, by user path. Empty for client credentials, which each gateway exchanges for itself. */
  list(server: McpServer): AuthorizationFacts[] {
    const now = this.#options.now();
    return this.#of(server.slug)
      .filter(({ value }) => server.url !== undefined && value.resource === publicUrl(server.url))
      .map(({ value: { userPath, pending, expiresAt, problem, ...value } }) => ({
        userPath,
        status:
          value.sealedTokens !== undefined
            ? 'authorized'
            : pending !== undefined && pending.expiresAt > now
              ? 'pending'
              : 'needs_authorization',
        expiresAt: value.sealedTokens === undefined ? undefined : expiresAt,
        problem,
      }));
  }

  #of(slug: string): Saved<Authorization>[] {
    const all = [...this.#options.view.state.byKey.values()].filter(({ value }) => value.slug === slug);
    return all.sort(({ value: a }, { value: b }) => (a.id < b.id ? -1 : 1));
  }

  /** Undefined also for an authorization at the address that the server had before. */
  #current(id: string, server: OAuthServer): Authorization | undefined {
    const value = this.#options.view.state.byKey.get(id)?.value;
    return value?.resource === publicUrl(server.url) ? value : undefined;
  }

  /** Takes the pending grant with this state, which no other request can then take. @throws Refusal 400 */
  async #consume(state: string | undefined, context: EventContext) {
    const { view, now } = this.#options;
    const hash = state === undefined ? undefined : hashOf(state);
    for (const { value, revision } of view.state.byKey.values()) {
      const { pending, ...begun } = value;
      if (pending === undefined || pending.stateHash !== hash || pending.expiresAt <= now()) continue;
      try {
        await this.#save(begun, context, BigInt(revision));
      } catch (error) {
        if (error instanceof Refusal && error.status === 409) break;
        throw error;
      }
      return { ...begun, pending };
    }
    const why = 'it is unknown, was used before, or is older than 10 minutes';
    throw refusals.invalidRequest(`'state' is not accepted: ${why}. Begin the authorization again.`, 'state');
  }

  async #ownToken(server: OAuthServer, refused: string | undefined): Promise<string> {
    const { now, requests } = this.#options;
    const known = this.#own.get(server);
    if (known !== undefined && known.until > now()) {
      const { access } = await known.tokens;
      if (access !== refused || !this.#mayReplace(server.slug)) return access;
    }
    const client = ownClient(server);
    if (client === undefined) throw new Error(`the MCP server '${server.slug}' has no client id`);
    const made = {
      tokens: attempt(server, [], () => requests.clientCredentials(server, client)),
      until: now() + REFRESH_MS,
    };
    this.#own.set(server, made);
    const failed = (): void => {
      made.until = now() + RETRY_MS;
    };
    made.tokens.then(({ expiresAt }) => {
      made.until = expiresAt === undefined ? Number.POSITIVE_INFINITY : expiresAt - early(expiresAt - now());
    }, failed);
    return (await made.tokens).access;
  }

  async #grantedToken(server: OAuthServer, userPath: UserPath | undefined, refused?: string): Promise<string> {
    const paths = server.oauth.perUserPath ? pathsAbove(userPath ?? '/').reverse() : [undefined];
    const ids = paths.map((path) => authorizationId(server.slug, path));
    const id = ids.find((one) => this.#current(one, server)?.sealedTokens !== undefined);
    if (id === undefined) {
      const whose = server.oauth.perUserPath ? ` for the user path ${userPath ?? '/'}` : '';
      const problem = ids.map((one) => this.#current(one, server)?.problem).find((one) => one !== undefined);
      const why = problem === undefined ? '' : ` (${problem})`;
      throw new Error(`the MCP server '${server.slug}' needs an authorization${whose} by an administrator${why}`);
    }
    return this.#validToken(id, server, refused);
  }

  /** Whether a token that was refused before its end may be replaced: not again and again for a server that refuses all. */
  #mayReplace(id: string): boolean {
    const now = this.#options.now();
    if ((this.#replaced.get(id) ?? 0) + REFRESH_MS > now) return false;
    this.#replaced.set(id, now);
    return true;
  }

  /** The access token, refreshed when its end is near, or when it was refused. */
  async #validToken(id: string, server: OAuthServer, refused: string | undefined): Promise<string> {
    const { view, now } = this.#options;
    const saved = view.state.byKey.get(id);
    if (saved === undefined) throw new Error(`the MCP server '${server.slug}' needs an authorization`);
    const { refreshingSince = 0 } = saved.value;
    const tokens = this.#tokensOf(saved.value, server);
    const left = leftOf(saved.value, now());
    const isRefreshed = refreshingSince + REFRESH_MS > now();
    const isRefused = tokens.access === refused && tokens.refresh !== undefined && this.#mayReplace(id);
    if (!isRefused && !isDue(saved.value, now())) return tokens.access;
    if (tokens.refresh === undefined) {
      if (left > 0) return tokens.access;
      throw new Error(`the token for the MCP server '${server.slug}' has expired, and cannot be refreshed`);
    }
    const failed = this.#failed.get(id);
    const waits = failed !== undefined && failed.until > now();
    if (left > 0 && !isRefused && (isRefreshed || waits)) return tokens.access;
    if (waits) throw failed.error;
    const running = this.#refreshes.get(id);
    if (running !== undefined) return running;
    const refresh = this.#refreshed(id, server, isRefused ? refused : undefined).finally(() =>
      this.#refreshes.delete(id),
    );
    this.#refreshes.set(id, refresh);
    return refresh;
  }

  /** Refreshes the tokens once, or waits for the gateway that does. */
  async #refreshed(id: string, server: OAuthServer, refused: string | undefined): Promise<string> {
    const { view, now, requests } = this.#options;
    for (;;) {
      const saved = view.state.byKey.get(id);
      if (saved === undefined) throw new Error(`the MCP server '${server.slug}' needs an authorization`);
      const { refreshingSince = 0, ...value } = saved.value;
      const { access, refresh } = this.#tokensOf(value, server);
      if (refresh === undefined || (access !== refused && !isDue(value, now()))) return access;
      const revision = BigInt(saved.revision);
      const begun =
        refreshingSince + REFRESH_MS > now()
          ? undefined
          : await unlessChanged(this.#save({ ...value, refreshingSince: now() }, system, revision));
      if (begun === undefined) {
        await this.#whenChanged(id, revision);
        continue;
      }
      const client = ownClient(server) ?? this.#clientOf(value);
      if (client === undefined) throw new Error(`the MCP server '${server.slug}' has no client id`);
      const { issuer, indicator } = value;
      const made = await attempt(server, [refresh, access, client.secret], () =>
        requests.refresh(server, { issuer, indicator, client }, refresh),
      ).catch((error: unknown) => asFailure(error));
      if (made instanceof AuthorizationFailure) {
        await this.#refreshFailed(value, begun, made);
        if (leftOf(value, now()) > 0 && !made.isFinal) return access;
        throw made;
      }
      await this.#keep(value, made, begun);
      return made.access;
    }
  }

  /** Records refreshed tokens, unless others have taken the place of those that were refreshed. */
  async #keep(refreshed: Authorization, made: Tokens, begun: bigint): Promise<void> {
    let value = refreshed;
    let revision = begun;
    while ((await unlessChanged(this.#save(this.#withTokens(value, made), system, revision))) === undefined) {
      await this.#whenChanged(value.id, revision);
      const newer = this.#options.view.state.byKey.get(value.id);
      if (newer === undefined || newer.value.sealedTokens !== refreshed.sealedTokens) return;
      value = newer.value;
      revision = BigInt(newer.revision);
    }
  }

  async #refreshFailed(value: Authorization, begun: bigint, failure: AuthorizationFailure): Promise<void> {
    this.#failed.set(value.id, { until: this.#options.now() + RETRY_MS, error: failure });
    const left = failure.isFinal ? withoutTokens(value) : value;
    await unlessChanged(this.#save({ ...left, problem: failure.message }, system, begun));
  }

  /** Resolves when the view has a newer state of the authorization, or after half a second. */
  async #whenChanged(id: string, revision: bigint): Promise<void> {
    const { log, view } = this.#options;
    await whenNewerEvent(streamOf(id), revision, log);
    await view.whenProcessed(await log.head());
  }

  #withTokens({ problem: _, ...value }: Authorization, { access, refresh, expiresAt }: Tokens): Authorization {
    const text = JSON.stringify({ access, ...(refresh !== undefined && { refresh }) });
    return {
      ...withoutTokens(value),
      sealedTokens: orUnavailable(() => this.#options.sealers.toSeal()).seal(sealingPlace(value.id), 'tokens', text),
      issuedAt: this.#options.now(),
      ...(expiresAt !== undefined && { expiresAt }),
    };
  }

  /** @throws Error */
  #tokensOf({ id, sealedTokens }: Authorization, { slug }: OAuthServer): z.infer<typeof savedTokens> {
    if (sealedTokens === undefined) throw new Error(`the MCP server '${slug}' needs an authorization`);
    return savedTokens.parse(JSON.parse(this.#open(id, 'tokens', sealedTokens)));
  }

  #clientOf({ id, client }: Authorization): OAuthClient | undefined {
    if (client?.sealedSecret === undefined) return client && { id: client.id };
    return { id: client.id, secret: this.#open(id, 'client', client.sealedSecret) };
  }

  /** @throws Error with the reason */
  #open(id: string, field: string, sealed: string): string {
    return this.#options.sealers.toOpen().open(sealingPlace(id), field, sealed);
  }

  /** @param revision default: the newest one. @returns the new revision. @throws Refusal 409, 503 */
  #save(value: Authorization, context: EventContext, revision?: bigint): Promise<bigint> {
    return this.#append(value.id, mcpAuthorizationSaved.create(value, context), revision);
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

function hasOAuth(server: McpServer): server is OAuthServer {
  return server.url !== undefined && server.oauth !== undefined;
}

/** Undefined when the authorization was changed by another request, or through another gateway. */
async function unlessChanged(saved: Promise<bigint>): Promise<bigint | undefined> {
  try {
    return await saved;
  } catch (error) {
    if (error instanceof Refusal && error.status === 409) return undefined;
    throw error;
  }
}

function ownClient({ oauth: { clientId, clientSecret } }: OAuthServer): OAuthClient | undefined {
  return clientId === undefined ? undefined : { id: clientId, secret: clientSecret };
}

/** How long before its end a token is refreshed. @param life of the token, in milliseconds */
function early(life: number): number {
  return Math.min(EARLY_MS, Math.max(0, life / 5));
}

/** Milliseconds until the access token ends. */
function leftOf({ expiresAt = Number.POSITIVE_INFINITY }: Pick<Authorization, 'expiresAt'>, now: EpochMs): number {
  return expiresAt - now;
}

/** Whether the tokens have to be refreshed. */
function isDue({ expiresAt, issuedAt = 0 }: Pick<Authorization, 'expiresAt' | 'issuedAt'>, now: EpochMs): boolean {
  return expiresAt !== undefined && expiresAt - now <= early(expiresAt - issuedAt);
}

function withoutTokens({ sealedTokens: _, issuedAt: __, expiresAt: ___, ...value }: Authorization): Authorization {
  return value;
}

function authorizationId(slug: string, userPath: string | undefined): string {
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

function hashOf(state: string): string {
  return createHash('sha256').update(state).digest('hex');
}
