/** Tools of the gateway's MCP servers through OpenAI's client, unchanged. */
import { Agent, hostedMcpTool, OpenAIResponsesModel, Runner } from '@openai/agents';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { both, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';
import { startToolServer } from '../support/tool-server.ts';

const server = await startToolServer();
const { gateway, learned } = withBothKinds({
  MCP_SERVERS: JSON.stringify([{ name: 'Weather', slug: 'weather', url: server.url }]),
});
beforeAll(learned);
afterAll(() => server.close());

const input = 'What is the weather in Paris?';
const mcp = { type: 'mcp', server_label: 'sky', server_url: 'gateway://weather' } as const;

describe.each(both)("OpenAI's client with a model that is %s", (_kind, model) => {
  const client = () => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: MASTER_KEY, maxRetries: 0 });

  it('assembles a stream in which the gateway calls a tool', async () => {
    const stream = client().responses.stream({ model, input, tools: [{ ...mcp, require_approval: 'never' }] });
    const types = new Set<string>();
    for await (const { type } of stream) types.add(type);
    expect([...types]).toEqual(
      expect.arrayContaining(['response.mcp_list_tools.completed', 'response.mcp_call.completed']),
    );
    const response = await stream.finalResponse();
    const call = response.output.find((item) => item.type === 'mcp_call');
    expect(call).toMatchObject({ name: 'get_weather', output: 'sunny in Paris', error: null });
    expect(response.output_text).toBe('The result is: sunny in Paris');
  });

  it('approves a call', async () => {
    const asked = await client().responses.create({ model, input, tools: [mcp] });
    const wanted = asked.output.find((item) => item.type === 'mcp_approval_request');
    const made = await client().responses.create({
      model,
      tools: [mcp],
      previous_response_id: asked.id,
      input: [{ type: 'mcp_approval_response', approval_request_id: wanted?.id ?? '', approve: true }],
    });
    expect(made.output_text).toBe('The result is: sunny in Paris');
  });

  it('serves an agent that approves a call', async () => {
    const approvals: string[] = [];
    const hosted = hostedMcpTool({
      serverLabel: 'sky',
      serverUrl: 'gateway://weather',
      requireApproval: 'always',
      onApproval: async (_context, item) => {
        approvals.push(item.name ?? '');
        return { approve: true };
      },
    });
    const agent = new Agent({ name: 'sky', model: new OpenAIResponsesModel(client(), model), tools: [hosted] });
    const result = await new Runner({ tracingDisabled: true }).run(agent, input);
    expect(result.finalOutput).toBe('The result is: sunny in Paris');
    expect(approvals).toEqual(['get_weather']);
  });
});
