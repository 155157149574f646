import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chatRequestFromMessages } from '../../src/providers/translate/messages-to-chat/request.ts';
import {
  createMessageStreamTranslator,
  messageFromChat,
} from '../../src/providers/translate/messages-to-chat/stream.ts';
import { plainReasoning } from '../../src/providers/translate/responses-to-chat/reasoning.ts';
import { countOf } from '../support/seed.ts';
import { addedUp, messageShell } from './message-shape.ts';
import { streamed } from './streamed-chat.ts';

interface Answer {
  reasoning: string;
  content: string;
  refusal: string;
  calls: { id: string | undefined; name: string; arguments: string }[];
  finish: string;
  usage: { prompt_tokens: number; completion_tokens: number } | undefined;
}

const text = fc.string({ unit: 'grapheme' });
const answers: fc.Arbitrary<Answer> = fc.record({
  reasoning: text,
  content: text,
  refusal: fc.oneof({ arbitrary: fc.constant(''), weight: 3 }, fc.string()),
  calls: fc.array(
    fc.record({
      id: fc.option(fc.constantFrom('call_a', 'call_b', 'call_c'), { nil: undefined }),
      name: fc.constantFrom('f', 'g'),
      arguments: fc.oneof(
        fc.dictionary(fc.string(), fc.jsonValue()).map((input) => JSON.stringify(input)),
        fc.constantFrom('', '{"cut":', 'no JSON', '[1]'),
      ),
    }),
    { maxLength: 4 },
  ),
  finish: fc.constantFrom('stop', 'tool_calls', 'length', 'content_filter'),
  usage: fc.option(fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() }), { nil: undefined }),
});

function whole(answer: Answer): unknown {
  const { reasoning, content, refusal, calls, finish, usage } = answer;
  const message = {
    role: 'assistant',
    reasoning_content: reasoning,
    content,
    refusal: refusal === '' ? null : refusal,
    tool_calls: calls.map(({ id, name, arguments: args }) => ({ id, function: { name, arguments: args } })),
  };
  return { choices: [{ index: 0, message, finish_reason: finish }], usage };
}

const cuts = fc.infiniteStream(fc.nat(1000)).map((numbers) => () => Number(numbers.next().value));
const shells = fc.constantFrom('shown', 'sealed', 'left_out').map((thoughts) => messageShell({ thoughts }));

describe('laws of translated messages', () => {
  it('however an answer is cut into chunks, the client adds up the message of the whole answer', () => {
    fc.assert(
      fc.property(answers, cuts, shells, (answer, cut, shell) => {
        const translator = createMessageStreamTranslator(shell);
        const events = streamed(answer, cut).flatMap((chunk) => translator.push(chunk));
        events.push(...translator.finish());
        const message = messageFromChat(whole(answer), shell);
        expect(translator.message()).toEqual(message);
        // Both sides go through JSON: -0 and the like do not count.
        expect(JSON.parse(JSON.stringify(addedUp(events)))).toEqual(JSON.parse(JSON.stringify(message)));
      }),
      { numRuns: countOf(100, 400) },
    );
  });

  it('no JSON value makes the translator throw or break a rule', () => {
    const chunk = fc.oneof(
      fc.jsonValue(),
      fc.jsonValue().map((delta) => ({ choices: [{ delta }] })),
    );
    fc.assert(
      fc.property(fc.array(chunk), (chunks) => {
        const translator = createMessageStreamTranslator(messageShell());
        const events = chunks.flatMap((one) => translator.push(one));
        events.push(...translator.finish());
        addedUp(events);
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('no JSON value makes the translation of a request throw', () => {
    const member = fc.constantFrom(
      'system',
      'messages',
      'tools',
      'tool_choice',
      'thinking',
      'metadata',
      'output_config',
    );
    fc.assert(
      fc.property(fc.dictionary(member, fc.jsonValue()), fc.array(fc.jsonValue()), (body, messages) => {
        for (const request of [body, { ...body, messages }]) {
          const result = chatRequestFromMessages(request, { model: 'm1', reasoningStyle: plainReasoning });
          if (!result.ok) expect(result.refusal).toMatchObject({ status: 400, message: expect.stringMatching(/./) });
        }
      }),
      { numRuns: countOf(75, 300) },
    );
  });

  it('messages to chat and back keep text, thoughts and tool calls', () => {
    const called = fc.record({
      name: fc.constantFrom('f', 'g'),
      input: fc.dictionary(fc.string(), fc.jsonValue({ noUnicodeString: false })),
    });
    const said = fc.record({
      thinking: fc.string({ minLength: 1 }),
      text: fc.string({ minLength: 1 }),
      calls: fc.array(called, { maxLength: 3 }),
    });
    fc.assert(
      fc.property(said, ({ thinking, text: words, calls }) => {
        const content = [
          { type: 'thinking', thinking, signature: 'of somebody' },
          { type: 'text', text: words },
          ...calls.map(({ name, input }, index) => ({ type: 'tool_use', id: `call_${index}`, name, input })),
        ];
        const messages = [{ role: 'assistant', content }];
        const chat = chatRequestFromMessages({ messages }, { model: 'm1', reasoningStyle: plainReasoning });
        if (!chat.ok) throw new Error(chat.refusal.message);
        const [message] = chat.body.messages;
        const answer = messageFromChat({ choices: [{ index: 0, message, finish_reason: 'stop' }] }, messageShell());
        const expected = content.map((block) => ('signature' in block ? { type: block.type, thinking } : block));
        expect(JSON.parse(JSON.stringify(answer?.content))).toMatchObject(JSON.parse(JSON.stringify(expected)));
      }),
      { numRuns: countOf(50, 200) },
    );
  });
});
