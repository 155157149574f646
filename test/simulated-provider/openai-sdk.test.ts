import OpenAI from 'openai';
import { beforeAll, describe, expect, it } from 'vitest';
import { user, weatherTool, withProvider } from './started-provider.ts';

const started = withProvider();
const model = 'simulated-small';
let client: OpenAI;
beforeAll(() => {
  client = new OpenAI({ baseURL: started.url, apiKey: 'none', maxRetries: 0 });
});

describe("OpenAI's own client", () => {
  it('chats', async () => {
    const answer = await client.chat.completions.create({
      model,
      messages: [{ role: 'user', content: 'Reply with exactly: hello' }],
    });
    expect(answer.choices[0]?.message.content).toBe('hello');
  });

  it('chats in a stream, and adds it up to the same answer', async () => {
    const messages = [{ role: 'user' as const, content: 'Tell me something.' }];
    const whole = await client.chat.completions.create({ model, messages });
    const stream = client.chat.completions.stream({ model, messages, stream_options: { include_usage: true } });
    const streamed = await stream.finalChatCompletion();
    expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]?.message.content);
    expect(streamed.usage).toEqual(whole.usage);
  });

  it('runs a tool to the end', async () => {
    let askedFor: unknown;
    const runner = client.chat.completions.runTools({
      model,
      messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
      tools: [
        {
          type: 'function',
          function: {
            ...weatherTool.function,
            parse: JSON.parse,
            function: (given: object) => {
              askedFor = given;
              return 'sunny';
            },
          },
        },
      ],
    });
    expect(await runner.finalContent()).toContain('sunny');
    expect(askedFor).toMatchObject({ city: 'Paris' });
  });

  it('adds a streamed tool call up', async () => {
    const stream = client.chat.completions.stream({
      model,
      messages: [{ role: 'user', content: 'What is the weather in Paris?' }],
      tools: [{ type: 'function', function: weatherTool.function }],
    });
    const message = (await stream.finalChatCompletion()).choices[0]?.message;
    const call = message?.tool_calls?.[0];
    expect(call?.type === 'function' && JSON.parse(call.function.arguments)).toMatchObject({ city: 'Paris' });
  });

  it('creates, retrieves, lists and deletes a response', async () => {
    const created = await client.responses.create({ model, input: 'Reply with exactly: hello' });
    expect(created.output_text).toBe('hello');
    expect((await client.responses.retrieve(created.id)).id).toBe(created.id);
    const items = [];
    for await (const item of client.responses.inputItems.list(created.id)) items.push(item);
    expect(items).toHaveLength(1);
    await client.responses.delete(created.id);
    await expect(client.responses.retrieve(created.id)).rejects.toMatchObject({ status: 404 });
  });

  it('streams a response with text, reasoning and a function call', async () => {
    const said = await client.responses.stream({ model, input: 'Think, and tell me something.' }).finalResponse();
    expect(said.output.map((item) => item.type)).toEqual(['reasoning', 'message']);
    expect(said.output_text.length).toBeGreaterThan(10);
    const called = await client.responses
      .stream({
        model,
        input: 'What is the weather in Paris?',
        tools: [{ type: 'function', strict: true, ...weatherTool.function }],
      })
      .finalResponse();
    expect(called.output[0]).toMatchObject({ type: 'function_call', name: 'get_weather', status: 'completed' });
  });

  it('follows a stored response as a stream', async () => {
    const first = await client.responses.create({ model, input: 'hi' });
    const again = await client.responses.stream({ response_id: first.id }).finalResponse();
    expect(again.output_text).toBe(first.output_text);
  });

  it('cancels a background response', async () => {
    const queued = await client.responses.create({ model, input: 'hi', background: true });
    expect((await client.responses.cancel(queued.id)).status).toBe('cancelled');
  });

  it('embeds, in base64 internally', async () => {
    const { data } = await client.embeddings.create({ model: 'simulated-embed', input: 'hello', dimensions: 8 });
    expect(data[0]?.embedding).toHaveLength(8);
    expect(Math.hypot(...(data[0]?.embedding ?? []))).toBeCloseTo(1, 5);
  });

  it('reports errors with their status and code', async () => {
    const failing = client.chat.completions.create({ model: 'fault-429', messages: user('hi') as never });
    await expect(failing).rejects.toMatchObject({ status: 429, code: 'rate_limit_exceeded' });
  });
});
