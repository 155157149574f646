/**
 * The tokens that requests to MCP servers are sent with. Those of a grant are refreshed before they end: once for all requests of a
 * gateway, and by one of the gateways on a log, since many authorization servers accept a refresh token once.
 */
import { LRUCache } from 'lru-cache';
import { type EpochMs, type EventContext, pathsAbove, type UserPath } from '../events/event.ts';
import {
  type Authorization,
  type AuthorizationRecords,
  authorizationId,
  unlessChanged,
  withoutTokens,
} from './authorization-records.ts';
import type { McpServer } from './mcp-server.ts';
import { hasOAuth, type OAuthRequests, type OAuthServer, ownClient, type Tokens } from './oauth-client.ts';
import { AuthorizationFailure, asFailure, attempt } from './oauth-failure.ts';

/** After this time a gateway that has begun a refresh counts as ended. */
const REFRESH_MS = 30_000;
/** An access token is refreshed so long before its end, or for the last fifth of a shorter life. */
const EARLY_MS = 60_000;
/** After a refresh that failed, the next one. */
const RETRY_MS = 5000;
/** Authorizations of which this is remembered. */
const MOST = 10_000;

const system: EventContext = { actor: 'system' };

interface AccessTokensOptions {
  readonly records: AuthorizationRecords;
  readonly requests: OAuthRequests;
  readonly now: () => EpochMs;
}

interface FailedRefresh {
  /** The tokens, sealed. */
  readonly of: string | undefined;
  /** It is not repeated before. */
  readonly until: EpochMs;
  readonly error: AuthorizationFailure;
}

export class AccessTokens {
  readonly #options: AccessTokensOptions;
  /** By id, as in all of these. */
  readonly #refreshes = new Map<string, Promise<string>>();
  readonly #failed = new LRUCache<string, FailedRefresh>({ max: MOST });
  /** When tokens were replaced because a server refused them. */
  readonly #replaced = new LRUCache<string, EpochMs>({ max: MOST });
  /** Tokens for client credentials: each gateway has its own, and needs no record of them. */
  readonly #own = new WeakMap<McpServer, { tokens: Promise<Tokens>; until: EpochMs }>();

  constructor(options: AccessTokensOptions) {
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

  /** The secrets on record that are sent for the server in the name of a caller. */
  secretsOf(server: McpServer, userPath: UserPath | undefined): readonly string[] {
    if (!hasOAuth(server)) return [];
    const paths = server.oauth.perUserPath ? pathsAbove(userPath ?? '/') : [undefined];
    return paths.flatMap((path) => this.#options.records.secretsOf(authorizationId(server.slug, path)));
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
    const id = ids.find((one) => this.#options.records.current(one, server)?.sealedTokens !== undefined);
    if (id === undefined) {
      const whose = server.oauth.perUserPath ? ` for the user path ${userPath ?? '/'}` : '';
      const problem = ids
        .map((one) => this.#options.records.current(one, server)?.problem)
        .find((one) => one !== undefined);
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
    const { records, now } = this.#options;
    const saved = records.all.get(id);
    if (saved === undefined) throw new Error(`the MCP server '${server.slug}' needs an authorization`);
    const { refreshingSince = 0 } = saved.value;
    const tokens = records.tokensOf(saved.value, server);
    const left = leftOf(saved.value, now());
    const isRefreshed = refreshingSince + REFRESH_MS > now();
    const isRefused = tokens.access === refused && tokens.refresh !== undefined && this.#mayReplace(id);
    if (!isRefused && !isDue(saved.value, now())) return tokens.access;
    if (tokens.refresh === undefined) {
      if (left > 0) return tokens.access;
      throw new Error(`the token for the MCP server '${server.slug}' has expired, and cannot be refreshed`);
    }
    const failed = this.#failed.get(id);
    const waits = failed !== undefined && failed.of === saved.value.sealedTokens && failed.until > now();
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
    const { records, now, requests } = this.#options;
    for (;;) {
      const saved = records.all.get(id);
      if (saved === undefined) throw new Error(`the MCP server '${server.slug}' needs an authorization`);
      const { refreshingSince = 0, ...value } = saved.value;
      const { access, refresh } = records.tokensOf(value, server);
      if (refresh === undefined || (access !== refused && !isDue(value, now()))) return access;
      const revision = BigInt(saved.revision);
      const begun =
        refreshingSince + REFRESH_MS > now()
          ? undefined
          : await unlessChanged(records.save({ ...value, refreshingSince: now() }, system, revision));
      if (begun === undefined) {
        await records.whenChanged(id, revision);
        continue;
      }
      const client = ownClient(server) ?? records.clientOf(value);
      if (client === undefined) throw new Error(`the MCP server '${server.slug}' has no client id`);
      const { issuer, indicator } = value;
      const made = await attempt(server, [refresh, access, client.secret, ...records.secretsOf(id)], () =>
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
    const { records, now } = this.#options;
    let value = refreshed;
    let revision = begun;
    while (
      (await unlessChanged(records.save(records.withTokens(value, made, now()), system, revision))) === undefined
    ) {
      await records.whenChanged(value.id, revision);
      const newer = records.all.get(value.id);
      if (newer === undefined || newer.value.sealedTokens !== refreshed.sealedTokens) return;
      value = newer.value;
      revision = BigInt(newer.revision);
    }
  }

  async #refreshFailed(value: Authorization, begun: bigint, failure: AuthorizationFailure): Promise<void> {
    const { records, now } = this.#options;
    this.#failed.set(value.id, { of: value.sealedTokens, until: now() + RETRY_MS, error: failure });
    const left = failure.isFinal ? withoutTokens(value) : value;
    await unlessChanged(records.save({ ...left, problem: failure.message }, system, begun));
  }
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
