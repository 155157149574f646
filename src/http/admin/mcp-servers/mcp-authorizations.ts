/** The grants of administrators at MCP servers with OAuth: begun, completed by the browser, and given up. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type Refusal, refusals } from '../../../commands/refusal.ts';
import type { Authorizations } from '../../../mcp/authorizations.ts';
import type { McpServers } from '../../../mcp/mcp-server.ts';
import type { McpUpstreams } from '../../../mcp/upstreams.ts';
import { type QueryParameter, queryOfParameters, textParameter } from '../../api/parameters.ts';
import {
  emptyAnswer,
  globalAdmin,
  jsonAnswer,
  mediaAnswer,
  pathParameters,
  publicRoute,
  type Routes,
} from '../../api/route-schema.ts';
import { timeText } from '../../dates.ts';
import { optionalUserPath, queryOf, single, textIn } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { authorizeBody } from './mcp-server-rows.ts';

const CALLBACK = '/admin/mcp-servers/oauth/callback';
/** Longer ones of authorization servers are refused. */
const MAX_CODE = 16_384;

const ofOneServer = pathParameters({ slug: 'Slug of the server' });

const authorizeServer = globalAdmin('authorizeMcpServer', 'Begin to authorize the gateway at an MCP server', {
  description:
    'Discovers the authorization server, registers the gateway there unless the server has a client id, and returns the ' +
    'address at which access is granted in a browser. It leads back to the gateway, once and within 10 minutes.',
  params: ofOneServer,
  body: authorizeBody,
  example: { redirect_uri: `https://gateway.example.com${CALLBACK}` },
  response: {
    200: jsonAnswer(
      'Where to go on',
      z.object({ authorization_url: z.string(), redirect_uri: z.string(), expires_at: z.iso.datetime() }),
    ),
  },
  errors: [404, 409, 502, 503],
});

const forgetServer = globalAdmin('forgetMcpAuthorization', 'Give up the tokens for an MCP server', {
  params: ofOneServer,
  querystring: queryOfParameters({ user_path: textParameter('Whose tokens; default: all') }),
  response: { 204: emptyAnswer('They are not used any more') },
  errors: [404, 503],
});

const code: QueryParameter<string | undefined> = {
  description: 'Of the authorization server',
  schema: { type: 'string', maxLength: MAX_CODE },
  read(query, name) {
    const text = single(query[name]);
    if (text === undefined || text.length <= MAX_CODE) return text;
    throw refusals.invalidRequest(`'${name}' is longer than ${MAX_CODE} characters.`, name);
  },
};

const completeAuthorization = publicRoute('completeMcpAuthorization', 'Complete an authorization at an MCP server', {
  tag: 'operations',
  description: 'An authorization server sends the browser of the administrator here. `state` is accepted once.',
  querystring: queryOfParameters({
    state: textParameter('As the authorization was begun with it'),
    code,
    iss: textParameter('The authorization server (RFC 9207)'),
    error: textParameter('Why access was not granted'),
  }),
  response: { 200: mediaAnswer('Access is granted', 'text/plain', { type: 'string' }) },
  errors: [400, 502, 503],
});

interface McpAuthorizationRoutesOptions {
  readonly servers: Pick<McpServers, 'get'>;
  readonly authorizations: Authorizations;
  /** The path below which every route is. */
  readonly basePath: string;
}

export function registerMcpAuthorizations(admin: Routes, options: McpAuthorizationRoutesOptions): void {
  const { servers, authorizations, basePath } = options;

  const known = (slug: string) => {
    const server = servers.get(slug);
    if (server === undefined) throw refusals.notFound('MCP server', slug);
    return server;
  };

  const redirectUriOf = (request: FastifyRequest, given: string | undefined): string => {
    const uri = given ?? `${request.protocol}://${request.host}${basePath}${CALLBACK}`;
    const url = URL.canParse(uri) ? new URL(uri) : undefined;
    const isWeb = url?.protocol === 'http:' || url?.protocol === 'https:';
    if (isWeb && url.pathname.endsWith(CALLBACK) && `${url.origin}${url.pathname}` === uri) return uri;
    throw refusals.invalidRequest(
      `'redirect_uri' must be an address of the gateway that ends with ${CALLBACK}.`,
      'redirect_uri',
    );
  };

  admin.post('/mcp-servers/:slug/oauth/authorize', authorizeServer, async (request) => {
    const { user_path, redirect_uri } = request.body;
    const server = known(request.params.slug);
    const redirectUri = redirectUriOf(request, redirect_uri ?? undefined);
    const userPath = optionalUserPath(user_path, 'user_path');
    const context = eventContextOf(request);
    const { url, expiresAt } = await authorizations.begin(server, { userPath, redirectUri, context });
    return { authorization_url: url, redirect_uri: redirectUri, expires_at: timeText(expiresAt) };
  });

  admin.delete('/mcp-servers/:slug/oauth', forgetServer, async (request, reply) => {
    const { slug } = request.params;
    const userPath = optionalUserPath(request.query.user_path, 'user_path');
    const count = await authorizations.forget(slug, userPath, eventContextOf(request));
    if (count === 0) throw refusals.notFound('authorization at the MCP server', slug);
    return reply.code(204).send();
  });
}

interface McpCallbackOptions extends Pick<McpAuthorizationRoutesOptions, 'servers' | 'authorizations'> {
  readonly isEnabled: boolean;
  readonly upstreams: Pick<McpUpstreams, 'reconnect'>;
  /** Called with what went wrong after the answer. */
  failed(error: unknown): void;
}

/** The way back of a browser, which has no key: under one path only. */
export function registerMcpCallback(app: Routes, options: McpCallbackOptions): void {
  const { servers, authorizations, isEnabled, upstreams, failed } = options;

  app.get(CALLBACK, completeAuthorization, async (request, reply) => {
    if (!isEnabled) throw mcpIsOff();
    const query = queryOf(request);
    const given = {
      ...{ state: textIn(query, 'state'), code: code.read(query, 'code') },
      ...{ iss: textIn(query, 'iss'), error: textIn(query, 'error') },
    };
    const context = { actor: 'system', requestId: request.id } as const;
    const { slug, userPath } = await authorizations.complete(given, (one) => servers.get(one), context);
    // Its tools are known sooner.
    void upstreams.reconnect(slug).catch(failed);
    const whose = userPath === undefined ? '' : ` for the user path ${userPath}`;
    return reply
      .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
      .type('text/plain; charset=utf-8')
      .send(`The gateway is authorized at the MCP server '${slug}'${whose}. This page can be closed.\n`);
  });
}

export function mcpIsOff(): Refusal {
  return refusals.featureUnavailable('MCP is switched off: MCP_ENABLED=false.');
}
