/**
 * Authorizations of the gateway at MCP servers, as administrators grant them in a browser: begun, completed once, given up. They are
 * on record, so a grant can be completed through another gateway, and after a restart.
 */
import { createHash, randomBytes } from 'node:crypto';
import { publicUrl } from '../commands/credentials/credential-fields.ts';
import { Refusal, refusals } from '../commands/refusal.ts';
import type { EpochMs, EventContext, UserPath } from '../events/event.ts';
import { type AuthorizationRecords, authorizationId } from './authorization-records.ts';
import type { McpServer } from './mcp-server.ts';
import { hasOAuth, type OAuthRequests, ownClient } from './oauth-client.ts';
import { AuthorizationFailure, asFailure, attempt, badAnswer, oneLine, orBadAnswer } from './oauth-failure.ts';

/** How long an administrator may take to grant access. */
const STATE_MS = 600_000;
const MAX_AUTHORIZATIONS = 10_000;

interface AuthorizationsOptions {
  readonly records: AuthorizationRecords;
  readonly requests: OAuthRequests;
  readonly now: () => EpochMs;
}

/** What administrators see of an authorization. */
interface AuthorizationFacts {
  readonly userPath: string | undefined;
  readonly status: 'pending' | 'authorized' | 'needs_authorization';
  readonly expiresAt: EpochMs | undefined;
  readonly problem: string | undefined;
}

export class Authorizations {
  readonly #options: AuthorizationsOptions;

  constructor(options: AuthorizationsOptions) {
    this.#options = options;
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
    const before = this.#options.records.current(id, server);
    if (before === undefined && this.#options.records.all.size >= MAX_AUTHORIZATIONS) {
      throw refusals.invalidRequest(`There are ${MAX_AUTHORIZATIONS} authorizations; remove some first.`, null);
    }
    const state = randomBytes(32).toString('base64url');
    const expiresAt = this.#options.now() + STATE_MS;
    const { requests } = this.#options;
    const own = ownClient(server);
    const { at, known, client, url, verifier } = await orBadAnswer(
      server,
      attempt(server, this.#options.records.secretsOf(id), async () => {
        const at = await requests.discover(server);
        const known = before?.issuer === at.issuer ? before : undefined;
        const registered =
          known?.client?.redirectUri === redirectUri ? this.#options.records.clientOf(known) : undefined;
        const client = own ?? registered ?? (await requests.register(at, redirectUri, server));
        return { at, known, client, ...(await requests.authorizationUrl(at, client, { redirectUri, state })) };
      }),
    );
    // Tokens of the same client stay in use until there are new ones.
    const isSame = known !== undefined && (own !== undefined || known.client?.id === client.id);
    const kept = isSame && {
      ...(known.sealedTokens !== undefined && { sealedTokens: known.sealedTokens }),
      ...(known.issuedAt !== undefined && { issuedAt: known.issuedAt }),
      ...(known.expiresAt !== undefined && { expiresAt: known.expiresAt }),
    };
    await this.#options.records.save(
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
            ...(client.secret !== undefined && {
              sealedSecret: this.#options.records.seal(id, 'client', client.secret),
            }),
            redirectUri,
          },
        }),
        pending: {
          stateHash: hashOf(state),
          sealedVerifier: this.#options.records.seal(id, 'verifier', verifier),
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
      await this.#options.records.save({ ...begun, problem }, context);
      throw refusals.invalidRequest(`Access to the MCP server '${begun.slug}' was not granted: ${problem}.`, null);
    };
    if (given.error !== undefined) return end(`the authorization server answered '${oneLine(given.error)}'`);
    if (given.code === undefined) return end('the authorization server sent no code');
    if (server === undefined || !hasOAuth(server) || publicUrl(server.url) !== begun.resource) {
      return end('the server has been changed meanwhile');
    }
    const verifier = this.#options.records.open(begun.id, 'verifier', pending.sealedVerifier);
    const client = ownClient(server) ?? this.#options.records.clientOf(begun);
    if (client === undefined) return end('the server has been changed meanwhile');
    const { code, iss } = given;
    const tokens = await attempt(
      server,
      [code, verifier, client.secret, ...this.#options.records.secretsOf(begun.id)],
      () =>
        this.#options.requests.exchange(
          server,
          { issuer: begun.issuer, indicator: begun.indicator, client },
          { code, iss, verifier, redirectUri: pending.redirectUri },
        ),
    ).catch((error: unknown) => asFailure(error));
    if (tokens instanceof AuthorizationFailure) {
      await this.#options.records.save({ ...begun, problem: tokens.message }, context);
      throw badAnswer(server, tokens);
    }
    await this.#options.records.save(this.#options.records.withTokens(begun, tokens, this.#options.now()), context);
    return { slug: begun.slug, userPath: begun.userPath };
  }

  /** Gives up tokens. @param userPath undefined: all of the server. @returns how many authorizations there were */
  async forget(slug: string, userPath: UserPath | undefined, context: EventContext): Promise<number> {
    const of = this.#options.records
      .of(slug)
      .filter(({ value }) => userPath === undefined || value.userPath === userPath);
    for (const { value } of of) await this.#options.records.remove(value.id, context);
    return of.length;
  }

  /** Of one server, by user path. Empty for client credentials, which each gateway exchanges for itself. */
  list(server: McpServer): AuthorizationFacts[] {
    const now = this.#options.now();
    return this.#options.records
      .of(server.slug)
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

  /** Takes the pending grant with this state, which no other request can then take. @throws Refusal 400 */
  async #consume(state: string | undefined, context: EventContext) {
    const { records, now } = this.#options;
    const hash = state === undefined ? undefined : hashOf(state);
    for (const { value, revision } of records.all.values()) {
      const { pending, ...begun } = value;
      if (pending === undefined || pending.stateHash !== hash || pending.expiresAt <= now()) continue;
      try {
        await this.#options.records.save(begun, context, BigInt(revision));
      } catch (error) {
        if (error instanceof Refusal && error.status === 409) break;
        throw error;
      }
      return { ...begun, pending };
    }
    const why = 'it is unknown, was used before, or is older than 10 minutes';
    throw refusals.invalidRequest(`'state' is not accepted: ${why}. Begin the authorization again.`, 'state');
  }
}

function hashOf(state: string): string {
  return createHash('sha256').update(state).digest('hex');
}
