/** `/admin/mcp-servers`: the MCP servers that administrators set up, next to those of the configuration, and their catalogues. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type ObjectCommand, objectDecider } from '../../../commands/administered.ts';
import type { SealerSource } from '../../../commands/credentials/sealed-credentials.ts';
import type { McpServerDirectory } from '../../../commands/mcp-servers/mcp-server-directory.ts';
import { mcpServerFrom, mcpSlug, type StoredMcpServer } from '../../../commands/mcp-servers/mcp-server-input.ts';
import { refusals } from '../../../commands/refusal.ts';
import { streamName } from '../../../events/event.ts';
import type { EventLog } from '../../../events/log.ts';
import type { Authorizations } from '../../../mcp/authorizations.ts';
import type { McpUpstreams } from '../../../mcp/upstreams.ts';
import type { SavedObjects } from '../../../projections/administered.ts';
import { mcpServersKind, mcpServersView } from '../../../projections/mcp-servers.ts';
import type { RunningProjection } from '../../../projections/runner.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { sendRows } from '../../paging.ts';
import { eventContextOf } from '../../server.ts';
import type { AsOf } from '../as-of.ts';
import { asOfQuery, oneAsOf } from '../parameters.ts';
import { executeChange, sendObject } from '../resource.ts';
import { type McpRowFacts, mcpServerBody, mcpServerInput, mcpServerRow, mcpServerRowOf } from './mcp-server-rows.ts';

const MAX_SERVERS = 1000;
const NOUN = 'MCP server';

const ofOneServer = pathParameters({ slug: 'Slug of the server' });
const change = { ifMatch: '/mcp-servers/:slug' } as const;

const listServers = globalAdmin('listMcpServers', 'List the MCP servers', {
  description: 'Secrets are masked. Servers of the configuration are included, and cannot be changed here.',
  querystring: asOfQuery,
  response: { 200: jsonAnswer('All of them, by slug', z.array(mcpServerRow)) },
  errors: [503],
});

const getServer = globalAdmin('getMcpServer', 'Get one MCP server', {
  ...oneAsOf,
  params: ofOneServer,
  response: { 200: jsonAnswer('The server; without `ETag` when it is part of the configuration', mcpServerRow) },
  errors: [404, 503],
});

const saveServer = globalAdmin('saveMcpServer', 'Set up an MCP server, or replace its settings', {
  ...change,
  description:
    'Takes effect immediately. Omitted settings get their defaults. Secrets are encrypted before they are recorded; one that ' +
    'is sent as its mask keeps its stored value. Programs that are started (`stdio`) can be declared in the configuration only.',
  body: mcpServerBody,
  example: { name: 'Tickets', url: 'https://tickets.example.com/mcp', headers: { 'x-api-key': 'example' } },
  response: { 200: jsonAnswer('The server', mcpServerRow) },
  errors: [503],
});

const deleteServer = globalAdmin('deleteMcpServer', 'Delete an MCP server', {
  ...change,
  description: 'Its tokens are given up, too. Calls that are under way are completed.',
  params: ofOneServer,
  response: { 204: emptyAnswer('The server is deleted') },
  errors: [404, 503],
});

const reconnectServer = globalAdmin('reconnectMcpServer', 'Connect to an MCP server anew', {
  description: 'Answers also when the server could not be reached: `status` and `last_error` say so.',
  params: ofOneServer,
  response: { 200: jsonAnswer('The server', mcpServerRow) },
  errors: [404, 503],
});

const listed = { name: z.string(), title: z.string().optional(), description: z.string().optional() };

const catalogAnswer = z.object({
  server: z.string(),
  status: mcpServerRow.shape.status,
  instructions: z.string().optional(),
  tools: z.array(
    z.object({
      ...listed,
      input_schema: z.record(z.string(), z.unknown()),
      annotations: z.record(z.string(), z.unknown()).optional(),
      withheld: z.boolean().describe('It has changed, and its server is pinned'),
    }),
  ),
  prompts: z.array(z.object({ ...listed, arguments: z.array(z.unknown()).optional() })),
  resources: z.array(z.object({ ...listed, uri: z.string(), mime_type: z.string().optional() })),
  templates: z.array(z.object({ ...listed, uri_template: z.string(), mime_type: z.string().optional() })),
  changed_tools: z
    .array(
      z.object({
        name: z.string(),
        accepted: z.string().describe('The accepted definition, as JSON'),
        changed: z.string().describe('The definition that the server has now'),
        digest: z.string().describe('Of that definition; names it in `POST …/accept`'),
        changed_at: z.iso.datetime(),
      }),
    )
    .describe('Tools that differ from the accepted ones'),
});

const getCatalog = globalAdmin('getMcpServerCatalog', 'Get the tools, prompts and resources of an MCP server', {
  description: 'Connects to the server when there is no connection.',
  params: ofOneServer,
  response: { 200: jsonAnswer('What clients can use', catalogAnswer) },
  errors: [404, 502, 503],
});

export interface McpServerRoutesOptions {
  readonly log: EventLog;
  readonly asOf: AsOf;
  readonly view: Pick<RunningProjection<SavedObjects<StoredMcpServer>>, 'state' | 'whenProcessed'>;
  readonly directory: McpServerDirectory;
  /** The directory with the servers that were saved at another time. */
  directoryOver(saved: SavedObjects<StoredMcpServer>): McpServerDirectory;
  readonly sealers: SealerSource;
  readonly authorizations: Authorizations;
  readonly upstreams: McpUpstreams;
  /** Whether servers of administrators may not have this valid URL. */
  refusesAddress(url: string): Promise<boolean>;
}

type Stored = StoredMcpServer | undefined;

export function registerMcpServers(admin: Routes, options: McpServerRoutesOptions): void {
  const { log, asOf, view, directory, sealers, authorizations, upstreams, refusesAddress } = options;
  const facts: McpRowFacts = { upstreams, authorizations };
  const decider = objectDecider(mcpServersKind, NOUN);

  const at = async (given: string | undefined) =>
    given === undefined ? directory : options.directoryOver(await asOf.state(given, mcpServersView, view));

  const rowOf = (slug: string) => mcpServerRowOf(slug, directory, facts);

  const refuseManaged = (slug: string): void => {
    if (!directory.isDeclared(slug)) return;
    const message = `The MCP server '${slug}' is declared in the configuration and can be changed only there.`;
    throw refusals.invalidRequest(message, 'slug');
  };

  /** @throws Refusal 400 */
  async function checkAddresses(urls: Readonly<Record<string, string | undefined>>): Promise<void> {
    for (const [member, url] of Object.entries(urls)) {
      if (url === undefined || !URL.canParse(url) || !(await refusesAddress(url))) continue;
      throw refusals.invalidRequest(
        `'${member}' resolves to a loopback, link-local or cloud metadata address: declare the MCP server in the configuration, or set ALLOW_PRIVATE_PROVIDERS=true.`,
        member,
        'mcp_address_refused',
      );
    }
  }

  function execute(
    slug: string,
    command: { readonly kind: 'save'; readonly value: StoredMcpServer } | { readonly kind: 'remove' },
    { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  ) {
    const { whenProcessed } = view;
    return executeChange<Stored, ObjectCommand<StoredMcpServer>>(
      decider,
      { key: slug, context: eventContextOf(request), isVisible: () => true, ...command },
      { log, stream: streamName('mcp-server', slug), whenProcessed },
      { request, reply },
    );
  }

  admin.get('/mcp-servers', listServers, async (request, reply) => {
    const then = await at(request.query.as_of);
    return sendRows(
      reply,
      then.slugs.flatMap((slug) => mcpServerRowOf(slug, then, facts) ?? []),
    );
  });

  admin.get('/mcp-servers/:slug', getServer, async (request, reply) => {
    const { slug } = request.params;
    return sendObject(reply, mcpServerRowOf(slug, await at(request.query.as_of), facts), NOUN, slug);
  });

  admin.put('/mcp-servers', saveServer, async (request, reply) => {
    const input = mcpServerInput(request.body);
    const slug = mcpSlug(input.slug, input.name);
    refuseManaged(slug);
    const before = directory.savedAs(slug)?.value;
    if (before === undefined && view.state.byKey.size >= MAX_SERVERS) {
      throw refusals.invalidRequest(`There are ${MAX_SERVERS} MCP servers; remove one first.`, null);
    }
    const value = mcpServerFrom(input, before, sealers);
    await checkAddresses({ url: value.url, 'oauth.issuer': value.oauth?.issuer });
    await execute(slug, { kind: 'save', value }, { request, reply });
    return rowOf(slug);
  });

  admin.delete('/mcp-servers/:slug', deleteServer, async (request, reply) => {
    const { slug } = request.params;
    refuseManaged(slug);
    await execute(slug, { kind: 'remove' }, { request, reply });
    await authorizations.forget(slug, undefined, eventContextOf(request));
    return reply.code(204).send();
  });

  /** @throws Refusal 404 */
  const checkKnown = (slug: string): void => {
    if (!directory.slugs.includes(slug)) throw refusals.notFound(NOUN, slug);
  };

  admin.post('/mcp-servers/:slug/reconnect', reconnectServer, async ({ params: { slug } }) => {
    checkKnown(slug);
    await upstreams.reconnect(slug);
    return rowOf(slug);
  });

  admin.get('/mcp-servers/:slug/catalog', getCatalog, async ({ params: { slug } }) => {
    checkKnown(slug);
    return catalogOf(slug, upstreams);
  });
}

async function catalogOf(slug: string, upstreams: McpUpstreams): Promise<z.input<typeof catalogAnswer>> {
  const { instructions, tools, prompts, resources, templates } = await upstreams.catalog(slug);
  const common = ({ name, title, description }: Readonly<Record<string, unknown>>) => ({
    name: String(name),
    title: textIn(title),
    description: textIn(description),
  });
  return {
    server: slug,
    status: upstreams.status(slug).status,
    instructions,
    tools: tools.map((tool) => ({
      ...common(tool),
      input_schema: tool.inputSchema,
      annotations: tool.annotations,
      withheld: tool.withheld ?? false,
    })),
    prompts: prompts.map((prompt) => ({
      ...common(prompt),
      arguments: Array.isArray(prompt['arguments']) ? prompt['arguments'] : undefined,
    })),
    resources: resources.map((one) => ({
      ...common(one),
      uri: String(one['uri']),
      mime_type: textIn(one['mimeType']),
    })),
    templates: templates.map((one) => ({
      ...common(one),
      uri_template: String(one['uriTemplate']),
      mime_type: textIn(one['mimeType']),
    })),
    changed_tools: upstreams.changedTools(slug).map(({ changedAt, ...tool }) => ({
      ...tool,
      changed_at: new Date(changedAt).toISOString(),
    })),
  };
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
