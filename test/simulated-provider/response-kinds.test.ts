import { describe, expect, it } from 'vitest';
import { type Answered, dataOf, eventsOf, withProvider } from './started-provider.ts';

const { json, events, get, post, provider } = withProvider({ backgroundMs: 40 });
const responses = '/v1/responses';
const ask = (input: unknown, more: object = {}) => ({ model: 'm', input, ...more });
const types = (all: readonly { event?: string }[]) => [...new Set(all.map((event) => event.event))];

describe('a response', () => {
  it('refuses on request, in a part of its own', async () => {
    const { output, status } = await json(responses, ask('Refuse: I would rather not.'));
    expect(status).toBe('completed');
    expect(output[0].content).toEqual([{ type: 'refusal', refusal: 'I would rather not.' }]);
    const received = await events(responses, ask('Refuse: No.', { stream: true }));
    expect(types(received)).toEqual(
      expect.arrayContaining(['response.refusal.delta', 'response.refusal.done', 'response.content_part.done']),
    );
    expect(types(received)).not.toContain('response.output_text.delta');
  });

  it('is incomplete after a content filter', async () => {
    const response = await json(responses, ask('Filter: half a'));
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'content_filter' } });
  });

  it('cites its sources on request', async () => {
    const received = dataOf(await events(responses, ask('Tell me something, and cite it.', { stream: true })));
    const annotation = {
      type: 'url_citation',
      start_index: 0,
      end_index: expect.any(Number),
      url: expect.stringMatching(/^https:/),
      title: expect.any(String),
    };
    expect(received.filter((event) => event.type === 'response.output_text.annotation.added')).toMatchObject([
      { annotation_index: 0, content_index: 0, annotation },
    ]);
    expect(received.at(-1).response.output[0].content[0].annotations).toEqual([annotation]);
  });

  it('calls custom tools with text', async () => {
    const tools = [{ type: 'custom', name: 'shell' }];
    const called = await json(responses, ask('List the files in Documents', { tools }));
    expect(called.output).toMatchObject([
      { type: 'custom_tool_call', id: expect.stringMatching(/^ctc_/), name: 'shell', input: 'Documents' },
    ]);
    const received = await events(responses, ask('List the files in Documents', { tools, stream: true }));
    expect(types(received)).toEqual(
      expect.arrayContaining(['response.custom_tool_call_input.delta', 'response.custom_tool_call_input.done']),
    );
    const result = { type: 'custom_tool_call_output', call_id: called.output[0].call_id, output: 'a.txt' };
    const answered = await json(responses, ask([result], { previous_response_id: called.id, tools }));
    expect(answered.output[0].content[0].text).toContain('a.txt');
  });

  it('calls only the allowed tools, and one at a time without parallel calls', async () => {
    const tools = ['first', 'second'].map((name) => ({ type: 'function', name, parameters: { type: 'object' } }));
    const allowed = { type: 'allowed_tools', mode: 'required', tools: [{ type: 'function', name: 'second' }] };
    const names = async (more: object) =>
      (await json(responses, ask('Use both tools for Paris and Rome', { tools, ...more }))).output.map(
        (item: Answered) => item.name,
      );
    expect(await names({})).toEqual(['first', 'second']);
    expect(await names({ tool_choice: allowed, parallel_tool_calls: false })).toEqual(['second']);
    expect(await names({ parallel_tool_calls: false })).toEqual(['first']);
    expect(await names({ tool_choice: 'none' })).toEqual([undefined]);
  });

  it('searches the web before its text', async () => {
    const received = await events(responses, ask('Search for news', { tools: [{ type: 'web_search' }], stream: true }));
    expect(types(received)).toEqual(expect.arrayContaining(['response.web_search_call.searching']));
    expect(
      dataOf(received)
        .at(-1)
        .response.output.map((item: Answered) => item.type),
    ).toEqual(['web_search_call', 'message']);
  });

  it('carries encrypted reasoning, log probabilities and obfuscation on request', async () => {
    const include = ['reasoning.encrypted_content', 'message.output_text.logprobs'];
    const { output } = await json(responses, ask('Think.', { include, top_logprobs: 2 }));
    expect(output[0]).toMatchObject({ type: 'reasoning', encrypted_content: expect.stringMatching(/.{8}/) });
    expect(output[1].content[0].logprobs[0].top_logprobs).toHaveLength(2);
    const plain = dataOf(await events(responses, ask('hi', { stream: true })));
    expect(plain.some((event) => event.obfuscation !== undefined)).toBe(false);
    const stream_options = { include_obfuscation: true };
    const hidden = dataOf(await events(responses, ask('hi', { stream: true, stream_options })));
    expect(hidden.find((event) => event.type === 'response.output_text.delta').obfuscation).toMatch(/^x+$/);
  });

  it('repeats the members of its request', async () => {
    const requestBody = {
      metadata: { a: 'b' },
      instructions: 'Be brief.',
      temperature: 0.5,
      top_p: 0.5,
      truncation: 'auto',
      service_tier: 'flex',
      max_output_tokens: 99,
      max_tool_calls: 3,
      safety_identifier: 's',
      prompt_cache_key: 'k',
      user: 'u',
      text: { format: { type: 'json_object' }, verbosity: 'low' },
      prompt_cache_retention: '24h',
    };
    expect(await json(responses, ask('hi', requestBody))).toMatchObject(requestBody);
  });

  it('needs no input where there is a prompt template', async () => {
    expect((await post(responses, { model: 'm', prompt: { id: 'pmpt_1' } })).status).toBe(200);
  });

  it('fails on request, whole and in a stream', async () => {
    const simulate = { failResponse: true, code: 'rate_limit_exceeded', message: 'slow down' };
    const failed = {
      status: 'failed',
      error: { code: 'rate_limit_exceeded', message: 'slow down' },
      output: [],
      usage: null,
    };
    expect(await json(responses, ask('hi', { simulate }))).toMatchObject(failed);
    const received = dataOf(await events(responses, ask('hi', { simulate, stream: true })));
    expect(received.at(-1)).toMatchObject({ type: 'response.failed', response: failed });
  });

  it('can be compacted, and still recall facts from that', async () => {
    const input = [
      { role: 'user', content: 'Hello' },
      { role: 'assistant', content: 'The code is 4711.' },
    ];
    const { output } = await json(`${responses}/compact`, ask(input));
    expect(output.map((item: Answered) => item.type)).toEqual(['message', 'compaction']);
    const next = await json(responses, ask([...output, { role: 'user', content: 'What is the code?' }]));
    expect(next.output[0].content[0].text).toContain('4711');
    const chained = await json(responses, ask('The colour is red'));
    const compacted = await post(`${responses}/compact`, { model: 'm', previous_response_id: chained.id });
    expect(compacted.status).toBe(200);
  });
});

describe('a response in the background', () => {
  it('is queued, in progress, and completed', async () => {
    const seen: string[] = [];
    const { id, status } = await json(responses, ask('hi', { background: true }));
    expect(status).toBe('queued');
    await expect
      .poll(
        async () => {
          const { status: now } = await json(`${responses}/${id}`);
          if (seen.at(-1) !== now) seen.push(now);
          return now;
        },
        { interval: 1 },
      )
      .toBe('completed');
    expect(seen.slice(-2)).toEqual(['in_progress', 'completed']);
  });

  it.each(['queued', 'in_progress'] as const)('stays %s until it is released', async (holdBackground) => {
    const { id } = await json(responses, ask('hi', { background: true, simulate: { holdBackground } }));
    await expect.poll(async () => (await json(`${responses}/${id}`)).status).toBe(holdBackground);
    expect(await json(`${responses}/${id}`)).toMatchObject({ output: [], usage: null, completed_at: null });
    provider.control.release();
    await expect.poll(async () => (await json(`${responses}/${id}`)).status).toBe('completed');
  });

  it('can be cancelled at any moment before its end, and is unchanged after it', async () => {
    const simulate = { holdBackground: 'in_progress' };
    const { id } = await json(responses, ask('hi', { background: true, simulate }));
    await expect.poll(async () => (await json(`${responses}/${id}`)).status).toBe('in_progress');
    const cancel = async (which: string) => (await post(`${responses}/${which}/cancel`, '')).json();
    expect(await cancel(id)).toMatchObject({ status: 'cancelled', output: [] });
    provider.control.release();
    expect(await cancel(id)).toMatchObject({ status: 'cancelled' });
    const quick = await json(responses, ask('hi', { background: true }));
    await expect.poll(async () => (await json(`${responses}/${quick.id}`)).status).toBe('completed');
    expect(await cancel(quick.id)).toMatchObject({ status: 'completed' });
  });

  it('can be streamed, and rejoined while it runs', async () => {
    const simulate = { holdBackground: 'in_progress' };
    const live = post(responses, ask('hi', { background: true, stream: true, simulate }));
    const reader = (await live).body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('response.in_progress')) text += (await reader?.read())?.value ?? '';
    const begun = dataOf(eventsOf(text));
    expect(begun.map((event) => event.type)).toEqual(['response.created', 'response.queued', 'response.in_progress']);
    const { id } = begun[0].response;
    const rejoined = get(`${responses}/${id}?stream=true&starting_after=1`);
    provider.control.release();
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) text += part.value;
    const whole = dataOf(eventsOf(text));
    expect(whole.at(-1)).toMatchObject({ type: 'response.completed', response: { id, status: 'completed' } });
    expect(dataOf(eventsOf(await (await rejoined).text()))).toEqual(whole.slice(2));
  });

  it('ends its stream without a terminal event when it is cancelled', async () => {
    const simulate = { holdBackground: 'queued' };
    const stream = await post(responses, ask('hi', { background: true, stream: true, simulate }));
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!text.includes('response.queued')) text += (await reader?.read())?.value ?? '';
    await post(`${responses}/${dataOf(eventsOf(text))[0].response.id}/cancel`, '');
    for (let part = await reader?.read(); part?.value !== undefined; part = await reader?.read()) text += part.value;
    expect(eventsOf(text).map((event) => event.event ?? event.data)).toEqual([
      'response.created',
      'response.queued',
      '[DONE]',
    ]);
  });
});

it('an error in mid-stream has the number of the event that it replaces', async () => {
  const received = dataOf(await events(responses, ask('hi', { stream: true, simulate: { errorInStream: 4 } })));
  expect(received.map((event) => event.sequence_number)).toEqual([0, 1, 2, 3, 4]);
});
