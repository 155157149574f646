/** One tool of an MCP server: a call from the form of the dashboard, and the acceptance of its changed definition. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { ModelRequest } from '../../../commands/model-request/model-request.ts';
import { type Refusal, refusals } from '../../../commands/refusal.ts';
import type { EventContext } from '../../../events/event.ts';
import { McpError } from '../../../mcp/json-rpc.ts';
import type { McpServers } from '../../../mcp/mcp-server.ts';
import { type McpUpstreams, resultParts } from '../../../mcp/upstreams.ts';
import { emptyAnswer, globalAdmin, jsonAnswer, pathParameters, type Routes } from '../../api/route-schema.ts';
import { optionalUserPath } from '../../request-head.ts';
import { eventContextOf } from '../../server.ts';
import { whileOpen } from '../guardrails/guardrail-test.ts';

const ofOneTool = pathParameters({ slug: 'Slug of the server', name: 'Name of the tool, as its server names it' });

const callTool = globalAdmin('callMcpTool', 'Call a tool of an MCP server', {
  description:
    'Checked, recorded and charged like a call of a client; the administrator is the caller. A tool that fails says so in ' +
    '`is_error`.',
  params: ofOneTool,
  body: z.strictObject({
    arguments: z.record(z.string(), z.unknown()).optional(),
    user_path: z.string().nullish().describe('In whose name it is called; default: that of the administrator'),
  }),
  example: { arguments: { id: 'T-1' } },
  response: {
    200: jsonAnswer(
      'What the tool returned',
      z.object({
        exchange_id: z.string().optional().describe('The record of the call'),
        is_error: z.boolean(),
        content: z.array(z.unknown()).readonly(),
        structured_content: z.unknown().optional(),
      }),
    ),
  },
  errors: [404, 429, 502, 503, 504],
});

const acceptTool = globalAdmin('acceptMcpTool', 'Accept the changed definition of a tool', {
  description: 'Clients of a pinned server can use the tool again. Refused when it has changed once more.',
  params: ofOneTool,
  body: z.strictObject({ digest: z.string().describe('Of the definition that is accepted, from the catalogue') }),
  example: { digest: 'b1946ac92492d2347c6235b4d2611184' },
  response: { 204: emptyAnswer('The definition is accepted') },
  errors: [404, 409, 503],
});

export interface McpToolRoutesOptions {
  readonly servers: Pick<McpServers, 'get'>;
  readonly upstreams: Pick<McpUpstreams, 'callTool'>;
  /** @throws Refusal 404 when nothing is to be accepted, 409 when the definition has changed once more */
  acceptTool(slug: string, tool: string, digest: string, context: EventContext): Promise<void>;
  modelRequestOf(request: FastifyRequest): ModelRequest;
}

export function registerMcpTools(admin: Routes, options: McpToolRoutesOptions): void {
  const { servers, upstreams, modelRequestOf } = options;
  const known = (slug: string) => {
    const server = servers.get(slug);
    if (server === undefined) throw refusals.notFound('MCP server', slug);
    return server;
  };

  admin.post('/mcp-servers/:slug/tools/:name/call', callTool, async (request, reply) => {
    const { slug, name } = request.params;
    const server = known(slug);
    const userPath = optionalUserPath(request.body.user_path, 'user_path');
    const given = modelRequestOf(request);
    let exchangeId: string | undefined;
    const result = await upstreams
      .callTool({
        server,
        tool: name,
        arguments: request.body.arguments ?? {},
        request: userPath === undefined ? given : { ...given, caller: { ...given.caller, userPath } },
        signal: whileOpen(reply.raw),
        begun: (id) => {
          exchangeId = id;
        },
      })
      .catch((error: unknown) => {
        throw error instanceof McpError ? errorOfServer(slug, error) : error;
      });
    const { structuredContent, isError } = result;
    const content = resultParts(result);
    return { exchange_id: exchangeId, is_error: isError ?? false, content, structured_content: structuredContent };
  });

  admin.post('/mcp-servers/:slug/tools/:name/accept', acceptTool, async (request, reply) => {
    const { slug, name } = request.params;
    await options.acceptTool(known(slug).slug, name, request.body.digest, eventContextOf(request));
    return reply.code(204).send();
  });
}

/** A JSON-RPC error of the server, in the envelope of the gateway. */
function errorOfServer(slug: string, { code, message }: McpError): Refusal {
  return refusals.badAnswer(slug, `The MCP server '${slug}' returned the error ${code}: ${message}`, 'mcp_error');
}
