/**
 * The family of calls of tools at MCP servers. A call is an exchange, on stream `exchange-<id>`: `request.received`, verdicts
 * of guardrails, `tool.called`, `tool.answered`, and the same ends and usage as those of a model request. What the gateway
 * knows of the tools of a server is on stream `mcp-tools-<slug>`.
 */
import { z } from 'zod';
import { defineEvent } from './define.ts';

const server = z.string().describe('the slug of the server');
const digest = z.string().describe('SHA-256 of the definition in canonical JSON, hexadecimal');

/** A call of a tool is listed like one of a model: in its usage, in reports, and live. */
export function targetOfTool(slug: string, tool: string) {
  return { provider: `mcp:${slug}`, providerType: 'mcp', model: tool };
}

export const toolCalled = defineEvent({
  type: 'tool.called',
  when: 'The server of a tool is about to get the call. Without `tool.answered`, whether the tool ran is not known: this call is never made again.',
  body: 'the arguments that the server gets, where guardrails have changed those of `request.received`',
  data: z.object({
    server,
    tool: z.string().describe('as its server names it'),
    transport: z.enum(['streamable_http', 'sse', 'stdio']),
    reservedCost: z
      .string()
      .optional()
      .describe('nano-dollars that the budgets of the caller reserve for the call; absent when it has no price'),
  }),
});

export const toolAnswered = defineEvent({
  type: 'tool.answered',
  when: 'The server answered the call of a tool. The client gets the answer when this event is on disk.',
  body: "the server's result as JSON, before guardrails read it",
  data: z.object({
    server,
    tool: z.string(),
    isError: z.boolean().describe('the tool reports that it failed, or the server returned an error'),
    error: z
      .object({ code: z.number(), message: z.string() })
      .optional()
      .describe('the JSON-RPC error of the server; it has no result then'),
    bytes: z.number().int().describe('size of the result as JSON'),
    durationMs: z.number().describe('milliseconds from `tool.called`'),
  }),
});

export const mcpToolsChanged = defineEvent({
  type: 'mcp_tools.changed',
  when: 'A server listed tools whose names or definitions the gateway had not seen before.',
  body: 'the definitions as a JSON list, in the order of `tools`',
  data: z.object({
    server,
    tools: z.array(
      z.object({
        name: z.string(),
        digest,
        change: z
          .enum(['added', 'accepted', 'withheld'])
          .describe(
            '`added`: a tool of a new name. Of a known name whose definition has changed: `accepted`, or `withheld` until an administrator accepts it, when the server is pinned. `accepted` also when a pinned server has the accepted definition again',
          ),
      }),
    ),
  }),
});

export const mcpToolAccepted = defineEvent({
  type: 'mcp_tool.accepted',
  when: 'An administrator accepted the changed definition of a tool of a pinned server.',
  data: z.object({ server, tool: z.string(), digest }),
});
