/**
 * The values of `include`, and their effect on a translated response.
 *
 * | Value | Translated |
 * |---|---|
 * | `message.output_text.logprobs` | `logprobs` of the chat request; they come with the text |
 * | `reasoning.encrypted_content` | see carried-reasoning.ts |
 * | `reasoning.content` | the gateway's own: reasoning as raw text in `content`, not as a summary |
 * | `message.input_image.image_url` | no effect: input items are stored unchanged |
 * | results of hosted tools | no effect: none are executed, so there are none |
 * | any other | refused: its meaning is unknown |
 */
import { type Refused, refuse } from '../refusal.ts';

const known = new Set([
  'message.output_text.logprobs',
  'reasoning.encrypted_content',
  'reasoning.content',
  'message.input_image.image_url',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'computer_call_output.output.image_url',
  'code_interpreter_call.outputs',
]);

export function refusedInclude(include: unknown): Refused | undefined {
  if (!Array.isArray(include)) return undefined;
  const index = include.findIndex((value) => typeof value !== 'string' || !known.has(value));
  if (index === -1) return undefined;
  return refuse(
    'unsupported_value',
    `include[${index}]`,
    `This model's provider cannot include '${String(include[index])}'. It can include ${[...known].join(', ')}.`,
  );
}
