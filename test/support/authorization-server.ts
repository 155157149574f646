/** An MCP server that takes requests only with a token, and its authorization server: OAuth 2.1 as the protocol asks it. */
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface TokenRequest {
  readonly form: URLSearchParams;
  readonly authorization: string | undefined;
}

export interface AuthorizationServer {
  /** Of the MCP server. */
  readonly url: string;
  readonly issuer: string;
  /** All requests for tokens. */
  readonly tokenRequests: TokenRequest[];
  readonly registrations: Record<string, unknown>[];
  /** Settings of later answers. */
  readonly behaviour: {
    /** Seconds; undefined: the answer does not say. */
    expiresIn: number | undefined;
    /** Whether a refresh token is accepted once only. */
    rotates: boolean;
    registers: boolean;
    /** The error of every request for tokens. */
    tokenError: { status: number; error: string } | undefined;
    /** Awaited before each answer to a request for tokens. */
    beforeToken: () => Promise<unknown>;
    /** The issuer that the MCP server names. */
    names: string | undefined;
  };
  /** Grants access at the address that a browser was sent to. @returns the address to which it is sent back */
  grant(authorizationUrl: string, query?: Readonly<Record<string, string>>): string;
  /** Whether an access token is accepted. */
  accepts(token: string): boolean;
  /** No access token of before is accepted any more. */
  revoke(): void;
  close(): Promise<void>;
}

/** @param serve answers requests with a token; default: an empty object */
export async function startAuthorizationServer(
  serve: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) => json(response, {}),
): Promise<AuthorizationServer> {
  const codes = new Map<
    string,
    { readonly challenge: string; readonly redirectUri: string; readonly client: string }
  >();
  const access = new Set<string>();
  const refresh = new Set<string>();
  const tokenRequests: TokenRequest[] = [];
  const registrations: Record<string, unknown>[] = [];
  const behaviour: AuthorizationServer['behaviour'] = {
    expiresIn: 3600,
    rotates: true,
    registers: true,
    tokenError: undefined,
    beforeToken: async () => {},
    names: undefined,
  };
  let origin = '';

  function issue(hasRefresh: boolean): object {
    const token = `access-${randomUUID()}`;
    access.add(token);
    const { expiresIn } = behaviour;
    const more = hasRefresh ? { refresh_token: `refresh-${randomUUID()}` } : {};
    if (more.refresh_token !== undefined) refresh.add(more.refresh_token);
    return {
      access_token: token,
      token_type: 'Bearer',
      ...(expiresIn !== undefined && { expires_in: expiresIn }),
      ...more,
    };
  }

  /** The tokens of a request, or the error. */
  function tokensFor(form: URLSearchParams): object {
    const grantType = form.get('grant_type');
    if (grantType === 'client_credentials') return issue(false);
    if (grantType === 'refresh_token') {
      const token = form.get('refresh_token') ?? '';
      if (!refresh.has(token)) return { error: 'invalid_grant' };
      if (behaviour.rotates) refresh.delete(token);
      return issue(true);
    }
    const code = codes.get(form.get('code') ?? '');
    codes.delete(form.get('code') ?? '');
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url');
    const isRight = code?.challenge === challenge && code.redirectUri === form.get('redirect_uri');
    return isRight ? issue(true) : { error: 'invalid_grant' };
  }

  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '', origin).pathname;
    const pieces: Buffer[] = [];
    if (path === '/token' || path === '/register') for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces).toString();
    if (path === '/.well-known/oauth-protected-resource/mcp') {
      const issuer = behaviour.names ?? origin;
      return json(response, {
        resource: `${origin}/mcp`,
        authorization_servers: [issuer],
        scopes_supported: ['tools'],
      });
    }
    if (path === '/.well-known/oauth-authorization-server') {
      return json(response, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        ...(behaviour.registers && { registration_endpoint: `${origin}/register` }),
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
        authorization_response_iss_parameter_supported: true,
      });
    }
    if (path === '/register') {
      const asked: Record<string, unknown> = JSON.parse(body);
      registrations.push(asked);
      const client = { client_id: `client-${registrations.length}`, token_endpoint_auth_method: 'none' };
      return json(response, { ...asked, ...client }, 201);
    }
    if (path === '/token') {
      const form = new URLSearchParams(body);
      tokenRequests.push({ form, authorization: request.headers.authorization });
      await behaviour.beforeToken();
      const { tokenError } = behaviour;
      if (tokenError !== undefined) {
        const text = `${tokenError.error} for ${form.get('refresh_token') ?? form.get('code')}`;
        return json(response, { error: tokenError.error, error_description: text }, tokenError.status);
      }
      const tokens = tokensFor(form);
      return json(response, tokens, 'error' in tokens ? 400 : 200);
    }
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    if (path === '/mcp' && token !== undefined && access.has(token)) return serve(request, response);
    response.setHeader(
      'www-authenticate',
      `Bearer resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp", scope="tools"`,
    );
    return json(response, {}, path === '/mcp' ? 401 : 404);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url: `${origin}/mcp`,
    issuer: origin,
    ...{ tokenRequests, registrations, behaviour },
    grant(authorizationUrl, query = {}) {
      const { searchParams: asked } = new URL(authorizationUrl);
      const code = `code-${randomUUID()}`;
      const redirectUri = asked.get('redirect_uri') ?? '';
      codes.set(code, {
        challenge: asked.get('code_challenge') ?? '',
        redirectUri,
        client: asked.get('client_id') ?? '',
      });
      const back = new URL(redirectUri);
      const given = { code, state: asked.get('state') ?? '', iss: origin, ...query };
      for (const [name, value] of Object.entries(given)) if (value !== '') back.searchParams.set(name, value);
      return back.href;
    },
    accepts: (token) => access.has(token),
    revoke: () => access.clear(),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function json(response: ServerResponse, value: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
}
