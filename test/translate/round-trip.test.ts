import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCreateResponse } from '../../src/commands/responses/create-request.ts';
import { mergeHistory } from '../../src/commands/responses/history.ts';
import { storedInputItems } from '../../src/commands/responses/input-items.ts';
import { responseFromChat } from '../../src/providers/translate/responses-to-chat/answer.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning-style.ts';
import { chatRequestFromResponses } from '../../src/providers/translate/responses-to-chat/request.ts';
import { completedAt, shellFor } from './shells.ts';

const tools = [
  { type: 'function', name: 'f' },
  { type: 'custom', name: 'patch' },
  { type: 'namespace', name: 'agents', tools: [{ type: 'function', name: 'spawn' }] },
];
const options = { model: 'm1', reasoningStyle: plainReasoning };

const said = fc.string({ minLength: 1, unit: 'grapheme' });
const calls = fc.uniqueArray(
  fc.record({
    id: fc.stringMatching(/^call_[a-z]{3}$/),
    function: fc.oneof(
      fc.record({ name: fc.constantFrom('f', 'agents__spawn'), arguments: fc.json() }),
      fc.record({ name: fc.constant('patch'), arguments: said.map((input) => JSON.stringify({ input })) }),
    ),
  }),
  { minLength: 1, maxLength: 3, selector: (call) => call.id },
);
const turns = fc.oneof(
  fc.record({ content: said, reasoning_content: fc.option(said, { nil: undefined }) }),
  fc.record({ content: fc.option(said), reasoning_content: fc.option(said, { nil: undefined }), tool_calls: calls }),
);

describe('a turn that is stored and replayed', () => {
  it('reaches the chat model as the very message it gave, and the very question', () => {
    fc.assert(
      fc.property(said, turns, (question, turn) => {
        const message = {
          role: 'assistant',
          ...turn,
          ...('tool_calls' in turn
            ? { tool_calls: turn.tool_calls.map((call) => ({ ...call, type: 'function' })) }
            : {}),
        };
        const answer = responseFromChat({ choices: [{ index: 0, message }] }, shellFor({ tools }), completedAt);
        if (!answer.ok) throw new Error(answer.error.message);
        const stored = JSON.parse(JSON.stringify(answer.response.output));
        const chain = [{ input_items: storedInputItems(question, 'resp_1a2b'), output: stored }];
        const next = chatRequestFromResponses({ input: mergeHistory(chain, 'And now?'), tools }, options);
        if (!next.ok) throw new Error(next.refusal.message);
        const expected = [{ role: 'user', content: question }, message, { role: 'user', content: 'And now?' }];
        expect(next.body.messages).toEqual(JSON.parse(JSON.stringify(expected)));
      }),
      { numRuns: 300 },
    );
  });
});

describe('no JSON value', () => {
  const items = fc.array(
    fc.record(
      {
        type: fc.constantFrom('message', 'function_call', 'function_call_output', 'custom_tool_call', 'reasoning', ''),
        role: fc.constantFrom('user', 'assistant', 'developer'),
        content: fc.oneof(fc.string(), fc.jsonValue()),
        call_id: fc.constantFrom('a', 'b'),
        name: fc.constantFrom('f', 'patch'),
        output: fc.jsonValue(),
        summary: fc.jsonValue(),
      },
      { requiredKeys: [] },
    ),
  );
  const bodies = fc.oneof(
    fc.dictionary(
      fc.constantFrom('input', 'tools', 'tool_choice', 'text', 'reasoning', 'include', 'n'),
      fc.jsonValue(),
    ),
    fc.record({ input: items, tools: fc.jsonValue() }, { requiredKeys: ['input'] }),
  );

  it('makes the translation of a request throw: it is translated or refused', () => {
    fc.assert(
      fc.property(bodies, (body) => {
        const result = chatRequestFromResponses(body, options);
        if (!result.ok) expect([400, 404]).toContain(result.refusal.status);
        else expect(result.body.messages.length).toBeGreaterThan(0);
      }),
      { numRuns: 500 },
    );
  });

  it('makes the check of a create request throw', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.jsonValue(),
          bodies.map((body) => ({ model: 'm', ...body })),
        ),
        (json) => {
          const result = parseCreateResponse(json);
          if (!result.ok) expect(result.refusal.message).not.toBe('');
        },
      ),
      { numRuns: 300 },
    );
  });
});
