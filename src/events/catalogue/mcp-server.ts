/**
 * The MCP server family: a server that an administrator set up, on stream `mcp-server-<slug>`; and the authorization of the
 * gateway at a server with OAuth, on stream `mcp-authorization-<slug>`, or `mcp-authorization-<slug>/<user path>` where
 * user paths have their own.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const sealed = z.string().describe('encrypted: `v1.<id of the key>.<nonce, ciphertext and tag, base64url>`');

export const mcpServerSaved = defineEvent({
  type: 'mcp_server.saved',
  when: 'An administrator created or changed an MCP server. The event contains its complete definition, with encrypted secrets.',
  data: z.object({
    slug: z.string().describe('names it in addresses, and begins the names of its tools on `/mcp`'),
    name: z.string(),
    transport: z.enum(['streamable_http', 'sse']),
    url: z.string().describe('with a password and the values of a query masked'),
    sealedUrl: sealed.optional().describe('the complete URL, when parts of `url` are masked'),
    sealedHeaders: z.record(z.string(), sealed).describe('sent with every request to it'),
    description: z.string().optional(),
    enabled: z.boolean(),
    allowedTools: z.array(z.string()).optional().describe('absent: all that are not disallowed'),
    disallowedTools: z.array(z.string()).optional(),
    userPaths: z.array(z.string()).optional().describe('whose callers see it; absent: all'),
    toolTimeoutSeconds: z.number(),
    pin: z.boolean().describe('changed tools are withheld until an administrator accepts them'),
    pricePerCall: z.number().optional().describe('US dollars for each call of a tool'),
    oauth: z
      .object({
        grant: z.enum(['authorization_code', 'client_credentials']),
        clientId: z.string().optional().describe('absent: the gateway registers itself'),
        sealedClientSecret: sealed.optional(),
        scope: z.string().optional(),
        issuer: z.string().optional().describe('the authorization server; absent: the one that the server names'),
        perUserPath: z.boolean().describe('user paths have authorizations of their own'),
      })
      .optional(),
  }),
});

export const mcpServerRemoved = defineEvent({
  type: 'mcp_server.removed',
  when: 'An administrator removed an MCP server.',
  data: z.object({ slug: z.string() }),
});

export const mcpAuthorizationSaved = defineEvent({
  type: 'mcp_authorization.saved',
  when: 'An authorization at an MCP server was begun, granted, refused or refreshed. The event contains its complete state, with encrypted secrets.',
  data: z.object({
    id: z.string().describe('the slug of the server, and the user path where it has its own'),
    slug: z.string(),
    userPath: z.string().optional(),
    resource: z.string().describe('the URL of the server, without credentials: tokens are sent nowhere else'),
    issuer: z.string().describe('the authorization server'),
    indicator: z.string().optional().describe('what the tokens are requested for (RFC 8707)'),
    client: z
      .object({ id: z.string(), sealedSecret: sealed.optional(), redirectUri: z.string() })
      .optional()
      .describe('how the gateway has registered itself there'),
    pending: z
      .object({
        stateHash: z.string().describe('SHA-256 of the `state`, which is accepted once'),
        sealedVerifier: sealed.describe('for PKCE (RFC 7636)'),
        redirectUri: z.string(),
        expiresAt: z.number().describe('milliseconds since the epoch'),
      })
      .optional()
      .describe('begun, and neither granted nor refused'),
    sealedTokens: sealed.optional(),
    issuedAt: z.number().optional().describe('when the gateway got them, in milliseconds since the epoch'),
    expiresAt: z.number().optional().describe('of the access token, in milliseconds since the epoch; absent: unknown'),
    refreshingSince: z.number().optional().describe('a gateway refreshes the tokens, and no other does'),
    problem: z.string().optional().describe('why it has to be granted anew'),
  }),
});

export const mcpAuthorizationRemoved = defineEvent({
  type: 'mcp_authorization.removed',
  when: 'The tokens of an authorization were given up: by an administrator, or with the removal of its server.',
  data: z.object({ id: z.string() }),
});
