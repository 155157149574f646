import { describe, expect, it } from 'vitest';
import { ofNewInput, withResponsesNames } from '../../src/providers/translate/responses-to-chat/request.ts';

const refusal = (param: string | null, message = `'${param}' cannot be honoured.`) =>
  ({ status: 400, code: 'unsupported_parameter', param, message }) as const;

describe("a refusal about a translated member has the client's name for it", () => {
  it.each([
    ['max_tokens', 'max_output_tokens'],
    ['max_completion_tokens', 'max_output_tokens'],
    ['response_format', 'text.format'],
    ['response_format.json_schema.schema', 'text.format'],
    ['verbosity', 'text.verbosity'],
    ['reasoning_effort', 'reasoning.effort'],
    ['logprobs', 'include'],
    ['top_logprobs', 'top_logprobs'],
    ['temperature', 'temperature'],
    ['tools[1].type', 'tools[1].type'],
  ])('%s as %s', (chat, responses) => {
    expect(withResponsesNames(refusal(chat))).toEqual(refusal(responses));
  });

  it('and for other members in the message', () => {
    const message = "'temperature' must be 1, or left out, when 'reasoning_effort' asks the model to think.";
    expect(withResponsesNames(refusal('temperature', message))).toEqual(
      refusal('temperature', message.replace('reasoning_effort', 'reasoning.effort')),
    );
  });

  it('and a message of the chat request as the input, whichever item it came from', () => {
    expect(withResponsesNames(refusal('messages[3].content', 'An image must be a data URL.'))).toEqual(
      refusal('input', 'An image must be a data URL.'),
    );
  });

  it('unless it names nothing', () => {
    expect(withResponsesNames(refusal(null, 'No.'))).toEqual(refusal(null, 'No.'));
  });
});

describe('a place in the input', () => {
  it('is counted from the first item of the request', () => {
    expect(ofNewInput(refusal('input[5].type'), 4)).toEqual(refusal('input[1].type'));
    expect(ofNewInput(refusal('input[5].type'), 0)).toEqual(refusal('input[5].type'));
    expect(ofNewInput(refusal('truncation'), 4)).toEqual(refusal('truncation'));
  });

  it('in an earlier turn is the input as a whole', () => {
    expect(ofNewInput(refusal('input[3].type', 'No computers.'), 4)).toMatchObject({
      param: 'input',
      message: expect.stringContaining('No computers.'),
    });
  });
});
