/** Servers of MCP as OpenAI's agents SDK uses them, unchanged, through a gateway. */
import { MCPServerStreamableHttp } from '@openai/agents';
import { afterAll, describe, expect, it } from 'vitest';
import { MASTER_KEY } from '../support/gateway.ts';
import { type ScriptedMcp, startScriptedMcp } from '../support/scripted-mcp.ts';
import { withGateway } from '../support/with-gateway.ts';

let server: ScriptedMcp;

const gateway = withGateway(async () => {
  server = await startScriptedMcp({ echo: { call: ({ text }: { text: string }) => `echo: ${text}` } });
  return { env: { MCP_SERVERS: JSON.stringify([{ name: 'Scripted', url: server.url }]) } };
});
afterAll(() => server.close());

describe('MCPServerStreamableHttp', () => {
  it.each([
    ['/mcp', 'scripted_echo'],
    ['/mcp/scripted', 'echo'],
  ])('lists and calls the tools of %s', async (path, name) => {
    const requestInit = { headers: { authorization: `Bearer ${MASTER_KEY}` } };
    const servers = new MCPServerStreamableHttp({ url: `${gateway.url}${path}`, requestInit });
    await servers.connect();
    expect((await servers.listTools()).map((tool) => tool.name)).toEqual([name]);
    expect(await servers.callTool(name, { text: 'agents' })).toMatchObject([{ type: 'text', text: 'echo: agents' }]);
    await servers.close();
  });
});
