import { describe, expect, it } from 'vitest';
import { responseShell } from '../../src/commands/responses/create-request.ts';
import { checkResponse, requiredMembers } from './openai-shape.ts';
import { accepted, createdAt, shellFor } from './shells.ts';

describe('the shell of a response', () => {
  it('has all required members, with OpenAI’s defaults, for the smallest request', () => {
    const shell = shellFor();
    expect(Object.keys(shell)).toEqual(expect.arrayContaining(requiredMembers));
    expect(checkResponse(shell)).toMatchObject({
      id: 'resp_1a2b',
      created_at: createdAt,
      status: 'in_progress',
      model: 'local/m1',
      provider: 'local',
      background: false,
      error: null,
      frequency_penalty: 0,
      instructions: null,
      metadata: {},
      output: [],
      parallel_tool_calls: true,
      previous_response_id: null,
      reasoning: { effort: null, summary: null },
      service_tier: 'default',
      store: true,
      temperature: 1,
      text: { format: { type: 'text' }, verbosity: 'medium' },
      tool_choice: 'auto',
      tools: [],
      top_logprobs: 0,
      top_p: 1,
      truncation: 'disabled',
      usage: null,
    });
  });

  it('is the same when every optional member is null', () => {
    const optional =
      'background instructions max_output_tokens max_tool_calls parallel_tool_calls previous_response_id prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store temperature text tool_choice tools top_logprobs top_p truncation user metadata conversation prompt include prompt_cache_options frequency_penalty presence_penalty';
    const nulls = Object.fromEntries(optional.split(' ').map((member) => [member, null]));
    expect(shellFor(nulls)).toEqual(shellFor());
  });

  it('echoes the request', () => {
    const request = {
      background: true,
      instructions: 'Be brief.',
      max_output_tokens: 9,
      max_tool_calls: 2,
      parallel_tool_calls: false,
      previous_response_id: 'resp_0',
      prompt_cache_key: 'k',
      prompt_cache_options: { ttl: '30m' },
      prompt_cache_retention: '24h',
      safety_identifier: 's',
      service_tier: 'flex',
      store: false,
      temperature: 0,
      top_p: 0.1,
      top_logprobs: 4,
      truncation: 'auto',
      user: 'u',
      metadata: { a: 'b' },
      presence_penalty: 1,
      frequency_penalty: -1,
      tool_choice: { type: 'function', name: 'f' },
      conversation: { id: 'conv_1' },
      prompt: { id: 'pmpt_1' },
      include: ['reasoning.encrypted_content'],
    };
    const shell = shellFor(request);
    checkResponse(shell);
    expect(shell).toMatchObject(request);
  });

  it('names a conversation given by its id alone', () => {
    expect(shellFor({ conversation: 'conv_1' }).conversation).toEqual({ id: 'conv_1' });
  });

  it('has the members that a client left out of reasoning, text and tools', () => {
    const shell = shellFor({
      reasoning: { effort: 'low' },
      text: { format: { type: 'json_schema', name: 'city', schema: { type: 'object' } } },
      tools: [{ type: 'function', name: 'f' }, { type: 'web_search' }],
    });
    checkResponse(shell);
    expect(shell.reasoning).toEqual({ effort: 'low', summary: null });
    expect(shell.text).toEqual({
      format: { type: 'json_schema', name: 'city', schema: { type: 'object' }, description: null, strict: false },
      verbosity: 'medium',
    });
    expect(shell.tools).toEqual([
      { type: 'function', name: 'f', description: null, parameters: null, strict: null },
      { type: 'web_search' },
    ]);
  });

  it('can be queued', () => {
    const facts = { id: 'resp_1', createdAt, model: 'm', provider: 'p', status: 'queued' as const };
    expect(responseShell(accepted({ model: 'm', input: 'x', background: true }), facts).status).toBe('queued');
  });
});
