/** The settings of MCP: whether it is served, to which web pages, and the servers that the configuration declares. */
import { z } from 'zod';
import {
  choice,
  decimal,
  list,
  mapping,
  optionalSetting,
  rows,
  section,
  setting,
  settingWithSecrets,
  text,
  toggle,
  whole,
} from './setting.ts';

const names = (expected: string) => z.array(text(expected, /\S/), { error: () => `expected a list: ${expected}` });

/** Values by names: headers, variables. */
const secretValues = (expected: string) =>
  optionalSetting(
    z
      .record(z.string(), z.union([z.string(), z.number()]), { error: () => `expected ${expected}` })
      .transform((given) => Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value)]))),
    { secret: true },
  );

const webAddress = text('an address that begins with http:// or https://').refine(
  (address) => /^https?:\/\//i.test(address) && URL.canParse(address),
  { error: () => 'expected an address that begins with http:// or https://' },
);

/** As in `PUT /admin/mcp-servers`, and servers that are started as processes. */
const server = settingWithSecrets(
  mapping({
    name: text('a name', /\S/),
    slug: text(
      'lower-case letters, digits and - between them, up to 40',
      /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/,
    ).optional(),
    transport: choice('streamable_http', 'sse', 'stdio').optional(),
    url: webAddress.optional(),
    command: text('a program', /\S/).optional(),
    args: optionalSetting(names('arguments of the program'), { secret: true }),
    env: secretValues('a mapping of variables to their values'),
    headers: secretValues('a mapping of names of headers to their values'),
    description: text().optional(),
    enabled: toggle().optional(),
    allowed_tools: names('names of tools').optional(),
    disallowed_tools: names('names of tools').optional(),
    user_paths: names('user paths such as /team/alpha').optional(),
    tool_timeout_seconds: whole(1, 3600).optional(),
    pin: toggle().optional(),
    price_per_call: decimal(0, 1_000_000).optional(),
    oauth: mapping({
      grant: choice('authorization_code', 'client_credentials'),
      client_id: text('a client id', /\S/).optional(),
      client_secret: optionalSetting(text('a client secret', /\S/), { secret: true }),
      scope: text().optional(),
      issuer: webAddress.optional(),
      per_user_path: toggle().optional(),
    }).optional(),
  }).refine(
    ({ transport, url, command }) =>
      transport === 'stdio' ? command !== undefined && url === undefined : url !== undefined && command === undefined,
    { error: () => 'expected a url, or transport: stdio and a command' },
  ),
);

export const mcpSection = section({
  enabled: setting(toggle(), true, { env: 'MCP_ENABLED', describe: 'serve the tools of MCP servers at /mcp' }),
  allowed_origins: setting(list(), [], {
    env: 'MCP_ALLOWED_ORIGINS',
    live: true,
    describe: 'origins of web pages that may use /mcp beside those of cors_origins; * for all',
  }),
  servers: setting(rows(server), [], {
    env: 'MCP_SERVERS',
    live: true,
    json: true,
    rowsBy: 'name',
    holdsSecrets: true,
    describe: 'MCP servers behind the gateway; read-only for the admin API',
  }),
});

export function mcpConfig({ enabled, allowed_origins: allowedOrigins, servers }: z.output<typeof mcpSection>) {
  return {
    enabled,
    allowedOrigins,
    /** Slugs may be missing, user paths are not normalised, headers are not checked. */
    servers: servers.map((one) => ({
      slug: one.slug,
      name: one.name.trim(),
      transport: one.transport ?? ('streamable_http' as const),
      url: one.url,
      command: one.command,
      args: one.args,
      env: one.env,
      headers: one.headers ?? {},
      description: one.description,
      enabled: one.enabled ?? true,
      allowedTools: one.allowed_tools,
      disallowedTools: one.disallowed_tools,
      userPaths: one.user_paths,
      toolTimeoutSeconds: one.tool_timeout_seconds ?? 30,
      pin: one.pin ?? false,
      pricePerCall: one.price_per_call,
      oauth: one.oauth && {
        grant: one.oauth.grant,
        clientId: one.oauth.client_id,
        clientSecret: one.oauth.client_secret,
        scope: one.oauth.scope,
        issuer: one.oauth.issuer,
        perUserPath: one.oauth.per_user_path ?? false,
      },
    })),
  };
}
