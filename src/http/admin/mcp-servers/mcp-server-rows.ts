/** MCP servers as the admin API returns and accepts them. */
import { z } from 'zod';
import { readUrl } from '../../../commands/credentials/credential-fields.ts';
import type { McpServerDirectory } from '../../../commands/mcp-servers/mcp-server-directory.ts';
import {
  MCP_SECRET_MASK,
  type McpServerInput,
  type StoredMcpServer,
} from '../../../commands/mcp-servers/mcp-server-input.ts';
import type { Authorizations } from '../../../mcp/authorizations.ts';
import {
  type McpServer,
  mcpGrants,
  mcpTransports,
  remoteTransports,
  TOOL_TIMEOUT_SECONDS,
} from '../../../mcp/mcp-server.ts';
import type { McpUpstreams } from '../../../mcp/upstreams.ts';
import { timeText } from '../../dates.ts';
import { parseUserPath } from '../../request-head.ts';
import { savedMembers } from '../resource.ts';

const authorization = z.object({
  user_path: z.string().optional(),
  status: z.enum(['pending', 'authorized', 'needs_authorization']),
  expires_at: z.iso.datetime().optional().describe('Of the access token, which is refreshed before'),
  problem: z.string().optional(),
});

export const mcpServerRow = z.object({
  name: z.string(),
  slug: z.string().describe('In addresses, and before the names of its tools on `/mcp`'),
  transport: z.enum(mcpTransports),
  url: z.string().optional(),
  command: z.string().optional(),
  env: z.record(z.string(), z.string()).optional().describe('A mask for each value'),
  headers: z.record(z.string(), z.string()).optional().describe('A mask for each value'),
  description: z.string().optional(),
  enabled: z.boolean(),
  allowed_tools: z.array(z.string()).readonly().optional(),
  disallowed_tools: z.array(z.string()).readonly().optional(),
  user_paths: z.array(z.string()).readonly().optional(),
  tool_timeout_seconds: z.number(),
  pin: z.boolean(),
  price_per_call: z.number().optional().describe('US dollars'),
  oauth: z
    .object({
      grant: z.enum(mcpGrants),
      client_id: z.string().optional(),
      client_secret: z.string().optional().describe('A mask'),
      scope: z.string().optional(),
      issuer: z.string().optional(),
      per_user_path: z.boolean(),
      authorizations: z.array(authorization).describe('Those of administrators'),
    })
    .optional(),
  managed: z.boolean().describe('Declared in the configuration, and read-only here'),
  status: z.enum(['disabled', 'connecting', 'connected', 'degraded']),
  last_error: z.string().optional(),
  tool_count: z.int(),
  prompt_count: z.int(),
  resource_count: z.int(),
  changed_tools: z
    .array(z.string())
    .describe('Tools that differ from the accepted ones; withheld when the server is pinned'),
  connected_at: z.iso.datetime().optional(),
  created_at: z.iso.datetime().optional(),
  updated_at: z.iso.datetime().optional(),
  revision: z.string().optional(),
});

const toolNames = z.array(z.string().trim().min(1).max(256)).max(1000);

/** The body of `PUT /admin/mcp-servers`. */
export const mcpServerBody = z.strictObject({
  name: z.string().trim().min(1).max(100),
  slug: z.string().max(100).nullish().describe('Default: made of the name'),
  url: z.string().trim().max(2048),
  transport: z.enum(remoteTransports).nullish().describe('Default: `streamable_http`'),
  headers: z
    .record(z.string().max(100), z.string().max(8192))
    .refine((headers) => Object.keys(headers).length <= 50, 'expected at most 50 headers')
    .nullish()
    .describe('A value that is sent as its mask keeps the stored one'),
  description: z.string().max(2000).nullish(),
  enabled: z.boolean().nullish(),
  allowed_tools: toolNames.nullish().describe('Default: all that are not disallowed'),
  disallowed_tools: toolNames.nullish(),
  user_paths: z.array(z.string()).max(1000).nullish().describe('Whose callers see it. Default: all'),
  tool_timeout_seconds: z
    .int()
    .min(1)
    .max(TOOL_TIMEOUT_SECONDS.most)
    .nullish()
    .describe(`Default: ${TOOL_TIMEOUT_SECONDS.usual}`),
  pin: z.boolean().nullish().describe('Withhold tools that change until an administrator accepts them'),
  price_per_call: z.number().min(0).max(1_000_000).nullish().describe('US dollars'),
  oauth: z
    .strictObject({
      grant: z.enum(mcpGrants),
      client_id: z.string().trim().min(1).max(2048).nullish().describe('Default: the gateway registers itself'),
      client_secret: z.string().min(1).max(8192).nullish().describe('Its mask keeps the stored one'),
      scope: z.string().trim().max(2048).nullish().describe('Default: what the server asks for'),
      issuer: z
        .url({ protocol: /^https?$/ })
        .max(2048)
        .nullish()
        .describe('The authorization server. Default: the one that the server names'),
      per_user_path: z.boolean().nullish(),
    })
    .nullish(),
});

/** @throws Refusal 400 */
export function mcpServerInput({ oauth, ...body }: z.infer<typeof mcpServerBody>): McpServerInput {
  return {
    name: body.name,
    slug: body.slug ?? undefined,
    transport: body.transport ?? undefined,
    url: body.url,
    headers: body.headers ?? undefined,
    description: body.description ?? undefined,
    enabled: body.enabled ?? undefined,
    allowedTools: body.allowed_tools ?? undefined,
    disallowedTools: body.disallowed_tools ?? undefined,
    userPaths: body.user_paths?.map((path, place) => parseUserPath(path, `user_paths.${place}`)),
    toolTimeoutSeconds: body.tool_timeout_seconds ?? TOOL_TIMEOUT_SECONDS.usual,
    pin: body.pin ?? undefined,
    pricePerCall: body.price_per_call ?? undefined,
    oauth: oauth
      ? {
          grant: oauth.grant,
          clientId: oauth.client_id ?? undefined,
          clientSecret: oauth.client_secret ?? undefined,
          scope: oauth.scope || undefined,
          issuer: oauth.issuer ?? undefined,
          perUserPath: oauth.per_user_path ?? undefined,
        }
      : undefined,
  };
}

/** The body of `POST …/oauth/authorize`. */
export const authorizeBody = z.strictObject({
  user_path: z.string().nullish().describe('Whose authorization it is, where each user path has its own'),
  redirect_uri: z
    .string()
    .max(2048)
    .nullish()
    .describe(
      'Where the gateway is reached by the browser of the administrator: ends with `/admin/mcp-servers/oauth/callback`',
    ),
});

/** What rows have beside the definition. */
export interface McpRowFacts {
  readonly upstreams: Pick<McpUpstreams, 'status' | 'changedTools'>;
  readonly authorizations: Pick<Authorizations, 'list'>;
}

/** Undefined when there is no such server. */
export function mcpServerRowOf(
  slug: string,
  directory: McpServerDirectory,
  facts: McpRowFacts,
): z.input<typeof mcpServerRow> | undefined {
  const saved = directory.savedAs(slug);
  const server = directory.get(slug);
  const shown = saved === undefined ? server && declaredMembers(server) : storedMembers(saved.value);
  if (shown === undefined) return undefined;
  const { oauth, ...members } = shown;
  const problem = directory.problem(slug);
  const state = facts.upstreams.status(slug);
  return {
    ...members,
    oauth: oauth && { ...oauth, authorizations: server === undefined ? [] : authorizationRows(server, facts) },
    managed: saved === undefined,
    status: problem === undefined ? state.status : 'degraded',
    last_error: problem ?? state.lastError,
    tool_count: state.toolCount,
    prompt_count: state.promptCount,
    resource_count: state.resourceCount,
    changed_tools: facts.upstreams.changedTools(slug).map(({ name }) => name),
    connected_at: state.connectedAt === undefined ? undefined : timeText(state.connectedAt),
    ...savedMembers(saved),
  };
}

function authorizationRows(server: McpServer, { authorizations }: McpRowFacts) {
  return authorizations.list(server).map(({ userPath, status, expiresAt, problem }) => ({
    user_path: userPath,
    status,
    expires_at: expiresAt === undefined ? undefined : timeText(expiresAt),
    problem,
  }));
}

function storedMembers({ sealedHeaders, oauth, ...stored }: StoredMcpServer) {
  return {
    ...definitionMembers(stored),
    url: stored.url,
    headers: maskedValues(sealedHeaders),
    oauth: oauth && oauthMembers(oauth, oauth.sealedClientSecret !== undefined),
  };
}

function declaredMembers(server: McpServer) {
  // Arguments of the program may hold secrets.
  const { url, command, env, headers, oauth } = server;
  return {
    ...definitionMembers(server),
    url: url && (readUrl(url)?.shown ?? MCP_SECRET_MASK),
    command,
    env: env && maskedValues(env),
    headers: maskedValues(headers),
    oauth: oauth && oauthMembers(oauth, oauth.clientSecret !== undefined),
  };
}

function definitionMembers(server: Omit<McpServer, 'url' | 'headers' | 'oauth' | 'managed'>) {
  return {
    name: server.name,
    slug: server.slug,
    transport: server.transport,
    description: server.description,
    enabled: server.enabled,
    allowed_tools: server.allowedTools,
    disallowed_tools: server.disallowedTools,
    user_paths: server.userPaths,
    tool_timeout_seconds: server.toolTimeoutSeconds,
    pin: server.pin,
    price_per_call: server.pricePerCall,
  };
}

function oauthMembers(oauth: Omit<NonNullable<McpServer['oauth']>, 'clientSecret'>, hasSecret: boolean) {
  return {
    grant: oauth.grant,
    client_id: oauth.clientId,
    client_secret: hasSecret ? MCP_SECRET_MASK : undefined,
    scope: oauth.scope,
    issuer: oauth.issuer,
    per_user_path: oauth.perUserPath,
  };
}

function maskedValues(values: Readonly<Record<string, string>>): Record<string, string> | undefined {
  const names = Object.keys(values);
  return names.length === 0 ? undefined : Object.fromEntries(names.map((name) => [name, MCP_SECRET_MASK]));
}
