/**
 * Requests of OAuth 2.1 in the name of the gateway: discovery (RFC 9728, RFC 8414), registration (RFC 7591), and tokens.
 * The functions of the SDK make them, through the connections of the gateway; they are loaded with the first request.
 */
import type { AuthorizationServerMetadata, OAuthTokens } from '@modelcontextprotocol/client';
import { ServerCalls } from '../commands/auxiliary-calls/server-calls.ts';
import type { EpochMs } from '../events/event.ts';
import { localKindIn } from '../providers/checked-lookup.ts';
import type { ProxyOf } from '../providers/proxies.ts';
import type { McpServer } from './mcp-server.ts';

const sdk = () => import('@modelcontextprotocol/client');

const CALL_MS = 10_000;
const CLIENT_NAME = 'Chancery';

/** A server that is reached by HTTP, and has OAuth. */
export type OAuthServer = McpServer & Required<Pick<McpServer, 'url' | 'oauth'>>;

export interface AuthorizationServer {
  readonly issuer: string;
  readonly metadata: AuthorizationServerMetadata;
  /** What tokens are requested for (RFC 8707). Undefined: the server does not say. */
  readonly indicator?: string | undefined;
  readonly scope?: string | undefined;
}

/** How the gateway identifies itself to an authorization server. */
export interface OAuthClient {
  readonly id: string;
  readonly secret?: string | undefined;
}

/** The authorization server of a grant: tokens are sent only there, also when the MCP server names another one later. */
interface GrantedBy extends Pick<AuthorizationServer, 'issuer' | 'indicator'> {
  readonly client: OAuthClient;
}

export interface Tokens {
  readonly access: string;
  readonly refresh?: string | undefined;
  /** Undefined: the authorization server did not say. */
  readonly expiresAt?: EpochMs | undefined;
}

type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

interface OAuthRequestsOptions {
  readonly proxyOf: ProxyOf;
  /** Whether every server may be at a loopback, link-local or cloud metadata address. */
  readonly allowsLocal: boolean;
  readonly now: () => EpochMs;
}

export class OAuthRequests {
  readonly #calls: ServerCalls;
  readonly #allowsLocal: boolean;
  readonly #now: () => EpochMs;
  readonly #stopping = new AbortController();

  constructor({ proxyOf, allowsLocal, now }: OAuthRequestsOptions) {
    this.#calls = new ServerCalls(proxyOf, { callMs: CALL_MS, caller: 'MCP server' });
    this.#allowsLocal = allowsLocal;
    this.#now = now;
  }

  /** The authorization server of a server. @throws Error */
  async discover(server: OAuthServer): Promise<AuthorizationServer> {
    const { discoverOAuthProtectedResourceMetadata } = await sdk();
    const fetchFn = this.#fetchFor(server);
    const { oauth } = server;
    const challenge = await this.#challenge(server, fetchFn);
    const { resourceMetadataUrl } = challenge;
    // Older servers have none, and are their own authorization server.
    const resourceMetadata = await discoverOAuthProtectedResourceMetadata(
      server.url,
      resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl },
      fetchFn,
    ).catch(() => undefined);
    const issuer = oauth.issuer ?? resourceMetadata?.authorization_servers?.[0] ?? new URL('/', server.url).href;
    const metadata = await this.#metadataOf(issuer, fetchFn);
    const indicator = resourceMetadata?.resource;
    if (indicator !== undefined && !isAbove(indicator, server.url)) {
      throw new Error(`its metadata are of another resource, ${indicator}`);
    }
    const scope = oauth.scope ?? challenge.scope ?? resourceMetadata?.scopes_supported?.join(' ');
    return { issuer: metadata.issuer, metadata, indicator, scope: scope === '' ? undefined : scope };
  }

  /** Registers the gateway. @throws Error, also when the authorization server registers no clients */
  async register({ metadata }: AuthorizationServer, redirectUri: string, server: OAuthServer): Promise<OAuthClient> {
    const { registerClient, resolveClientMetadata } = await sdk();
    const clientMetadata = resolveClientMetadata({
      redirectUrl: redirectUri,
      clientMetadata: { client_name: CLIENT_NAME, redirect_uris: [redirectUri], response_types: ['code'] },
    });
    if (metadata.registration_endpoint === undefined) {
      throw new Error(`${metadata.issuer} registers no clients: set 'oauth.client_id'`);
    }
    const given = await registerClient(metadata.issuer, { metadata, clientMetadata, fetchFn: this.#fetchFor(server) });
    return { id: given.client_id, secret: given.client_secret };
  }

  /** The address at which an administrator grants access, and the verifier for PKCE. @throws Error */
  async authorizationUrl(
    { issuer, metadata, indicator, scope }: AuthorizationServer,
    client: OAuthClient,
    { redirectUri, state }: { readonly redirectUri: string; readonly state: string },
  ): Promise<{ readonly url: string; readonly verifier: string }> {
    const { startAuthorization } = await sdk();
    const { authorizationUrl, codeVerifier } = await startAuthorization(issuer, {
      metadata,
      clientInformation: { client_id: client.id },
      redirectUrl: redirectUri,
      state,
      ...(scope !== undefined && { scope }),
      ...(indicator !== undefined && { resource: indicator }),
    });
    if (!/^https?:$/.test(authorizationUrl.protocol)) throw new Error(`${issuer} has no web address for grants`);
    return { url: authorizationUrl.href, verifier: codeVerifier };
  }

  /** @throws Error; OAuthError for an answer of the authorization server, also to a wrong `iss` (RFC 9207) */
  async exchange(
    server: OAuthServer,
    at: GrantedBy,
    granted: {
      readonly code: string;
      readonly iss: string | undefined;
      readonly verifier: string;
      readonly redirectUri: string;
    },
  ): Promise<Tokens> {
    const { exchangeAuthorization } = await sdk();
    const fetchFn = this.#fetchFor(server);
    const given = await exchangeAuthorization(at.issuer, {
      metadata: await this.#metadataOf(at.issuer, fetchFn),
      clientInformation: informationOf(at.client),
      authorizationCode: granted.code,
      codeVerifier: granted.verifier,
      redirectUri: granted.redirectUri,
      fetchFn,
      ...(granted.iss !== undefined && { iss: granted.iss }),
      ...(at.indicator !== undefined && { resource: at.indicator }),
    });
    return this.#tokensOf(given);
  }

  /** @throws Error; OAuthError for an answer of the authorization server */
  async refresh(server: OAuthServer, at: GrantedBy, refreshToken: string): Promise<Tokens> {
    const { refreshAuthorization } = await sdk();
    const fetchFn = this.#fetchFor(server);
    const given = await refreshAuthorization(at.issuer, {
      metadata: await this.#metadataOf(at.issuer, fetchFn),
      clientInformation: informationOf(at.client),
      refreshToken,
      fetchFn,
      ...(at.indicator !== undefined && { resource: at.indicator }),
    });
    return this.#tokensOf(given);
  }

  /** Tokens for the client itself (RFC 6749 §4.4). @throws Error */
  async clientCredentials(server: OAuthServer, client: OAuthClient): Promise<Tokens> {
    const { fetchToken } = await sdk();
    const { issuer, metadata, indicator, scope } = await this.discover(server);
    const provider = {
      ...notInteractive,
      clientMetadata: { redirect_uris: [], ...(scope !== undefined && { scope }) },
      clientInformation: () => informationOf(client),
      prepareTokenRequest: (of?: string) =>
        new URLSearchParams({ grant_type: 'client_credentials', ...(of !== undefined && { scope: of }) }),
    };
    const fetchFn = this.#fetchFor(server);
    const resource = indicator === undefined ? {} : { resource: indicator };
    return this.#tokensOf(await fetchToken(provider, issuer, { metadata, fetchFn, ...resource }));
  }

  /** Ends the active requests. */
  async close(): Promise<void> {
    this.#stopping.abort();
    await this.#calls.close();
  }

  /** What the server says to a request without a token. A server that does not answer this way is none the worse for it. */
  async #challenge(server: OAuthServer, fetchFn: Fetch): Promise<{ resourceMetadataUrl?: URL; scope?: string }> {
    const { extractWWWAuthenticateParams } = await sdk();
    try {
      const answer = await fetchFn(server.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      });
      return answer.status === 401 ? extractWWWAuthenticateParams(answer) : {};
    } catch {
      return {};
    }
  }

  /** @throws Error */
  async #metadataOf(issuer: string, fetchFn: Fetch): Promise<AuthorizationServerMetadata> {
    const { discoverAuthorizationServerMetadata } = await sdk();
    const metadata = await discoverAuthorizationServerMetadata(issuer, { fetchFn });
    if (metadata === undefined) throw new Error(`the authorization server ${issuer} has no metadata`);
    return metadata;
  }

  #tokensOf({ access_token, refresh_token, expires_in, token_type }: OAuthTokens): Tokens {
    if (token_type.toLowerCase() !== 'bearer')
      throw new Error(`its tokens are of the type '${token_type}', not Bearer`);
    if (!/^[\x21-\x7e]{1,65536}$/.test(access_token)) throw new Error('its token cannot be sent in a header');
    return {
      access: access_token,
      ...(refresh_token !== undefined && { refresh: refresh_token }),
      ...(expires_in !== undefined && { expiresAt: this.#now() + expires_in * 1000 }),
    };
  }

  /** What a server names may be at a local address only when the server itself is at one. */
  #fetchFor({ url }: OAuthServer): Fetch {
    const isLocal = localKindIn(url) !== undefined;
    const call = this.#calls.fetchFrom(this.#allowsLocal || isLocal ? 'anywhere' : 'no local addresses');
    return async (to, { method = 'GET', headers, body } = {}) => {
      const answer = await call(String(to), {
        method,
        headers: Object.fromEntries(new Headers(headers)),
        body: body === undefined || body === null ? '' : String(body),
        signal: this.#stopping.signal,
      });
      const text = await answer.text();
      const isEmpty = answer.status === 204 || answer.status === 205 || answer.status === 304;
      return new Response(isEmpty ? null : text, { status: answer.status, headers: answer.headers });
    };
  }
}

function informationOf({ id, secret }: OAuthClient) {
  return { client_id: id, ...(secret !== undefined && { client_secret: secret }) };
}

/** Parts of a provider of the SDK that no request for client credentials uses. */
const notInteractive = {
  redirectUrl: undefined,
  tokens: () => undefined,
  saveTokens() {},
  redirectToAuthorization() {},
  saveCodeVerifier() {},
  codeVerifier: () => '',
};

/** Whether the resource is the server, or has its address within its own (RFC 9728 §3.3). */
function isAbove(resource: string, url: string): boolean {
  if (!URL.canParse(resource)) return false;
  const [above, at] = [new URL(resource), new URL(url)];
  const folder = above.pathname.endsWith('/') ? above.pathname : `${above.pathname}/`;
  return above.origin === at.origin && `${at.pathname}/`.startsWith(folder);
}

export function hasOAuth(server: McpServer): server is OAuthServer {
  return server.url !== undefined && server.oauth !== undefined;
}

/** The client of the definition. Undefined: the gateway registers itself. */
export function ownClient({ oauth: { clientId, clientSecret } }: OAuthServer): OAuthClient | undefined {
  return clientId === undefined ? undefined : { id: clientId, secret: clientSecret };
}
