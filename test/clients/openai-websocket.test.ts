/** `ResponsesWS` of OpenAI's client, and the agents SDK over it, unchanged. */
import { Agent, OpenAIResponsesWSModel, Runner, tool } from '@openai/agents';
import OpenAI from 'openai';
import { ResponsesWS } from 'openai/resources/responses/ws';
import { beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { both, tools, withBothKinds } from '../support/both-kinds.ts';
import { MASTER_KEY } from '../support/gateway.ts';

const { gateway, learned } = withBothKinds({ RETRY_MAX_RETRIES: '0', CIRCUIT_BREAKER_ENABLED: 'false' });
beforeAll(learned);

type ServerEvent = OpenAI.Responses.ResponsesServerEvent;
const clientOf = (apiKey = MASTER_KEY) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });

describe.each(both)('ResponsesWS with a provider that is %s', (_kind, model) => {
  /** Sends a turn and reads its events to the end. */
  async function turn(socket: ResponsesWS, body: object): Promise<OpenAI.Responses.Response> {
    socket.send({ type: 'response.create', model, store: false, ...body } as OpenAI.Responses.ResponsesClientEvent);
    for await (const event of socket) {
      if (event.type === 'error') throw event.error;
      if (event.type !== 'message') continue;
      const message: ServerEvent = event.message;
      if (message.type === 'response.completed') return message.response;
    }
    throw new Error('the socket ended');
  }

  it('calls a tool, and sends its result as the only input of the next turn', async () => {
    const socket = new ResponsesWS(clientOf());
    const first = await turn(socket, { tools, input: 'What is the weather in Paris?' });
    const call = first.output.find((item) => item.type === 'function_call');
    expect(call).toMatchObject({ name: 'get_weather', arguments: expect.stringContaining('Paris') });
    const output = { type: 'function_call_output', call_id: call?.call_id, output: 'sunny in Paris' };
    const second = await turn(socket, { tools, previous_response_id: first.id, input: [output] });
    expect(second.output).toMatchObject([
      { type: 'message', content: [{ type: 'output_text', text: 'The result is: sunny in Paris' }] },
    ]);
    socket.close();
  });

  it('throws the error of a turn, and goes on', async () => {
    const socket = new ResponsesWS(clientOf());
    await expect(turn(socket, { previous_response_id: 'resp_missing', input: 'hi' })).rejects.toThrow();
    expect(await turn(socket, { input: 'Reply with exactly: hello' })).toMatchObject({ status: 'completed' });
    socket.close();
  });

  it('serves an agent with its tools over one connection', async () => {
    const cities: string[] = [];
    const weather = tool({
      name: 'get_weather',
      description: 'The weather in a city',
      parameters: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']) }),
      execute: async ({ city }) => {
        cities.push(city);
        return `sunny in ${city}`;
      },
    });
    const agentModel = new OpenAIResponsesWSModel(clientOf(), model);
    const agent = new Agent({ name: 'Clerk', model: agentModel, tools: [weather] });
    const result = await new Runner({ tracingDisabled: true }).run(agent, 'What is the weather in Paris and Rome?');
    expect(cities.sort()).toEqual(['Paris', 'Rome']);
    expect(result.finalOutput).toBe('The result is: sunny in Paris; sunny in Rome');
    await agentModel.close();
  });
});
