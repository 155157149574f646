/** A refusal with the names of the Responses API, since the client did not send the chat request it refers to. */
import type { TranslationRefusal } from '../refusal.ts';

const responsesNames: ReadonlyMap<string, string> = new Map([
  ['logprobs', 'include'],
  ['max_completion_tokens', 'max_output_tokens'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['response_format', 'text.format'],
  ['verbosity', 'text.verbosity'],
]);

/** Converts a refusal of a chat member that a provider's own dialect lacks to the names of the Responses API. */
export function withResponsesNames(refusal: TranslationRefusal): TranslationRefusal {
  const { param } = refusal;
  if (param === null) return refusal;
  const [, name = '', rest = ''] = /^([^.[]*)(.*)$/s.exec(param) ?? [];
  // Items and messages do not correspond one to one, so only the message names the item.
  if (name === 'messages') return { ...refusal, param: 'input' };
  const known = responsesNames.get(name);
  if (known === undefined) return { ...refusal, message: withOwnNames(refusal.message) };
  const message = withOwnNames(refusal.message.replaceAll(`'${name}${rest}'`, () => `'${name}'`));
  return { ...refusal, param: known, message };
}

/** Replaces each quoted parameter name by the client's name of it. */
function withOwnNames(message: string): string {
  return message.replace(/'(\w+)'/g, (quoted, name: string) => {
    const known = responsesNames.get(name);
    return known === undefined ? quoted : `'${known}'`;
  });
}

/**
 * The place in the input as the client sent it.
 * @param earlier number of items of earlier turns that were put in front of it
 */
export function ofNewInput(refusal: TranslationRefusal, earlier: number): TranslationRefusal {
  const [whole, index, rest = ''] = /^input\[(\d+)\](.*)$/s.exec(refusal.param ?? '') ?? [];
  if (earlier === 0 || whole === undefined) return refusal;
  const place = Number(index) - earlier;
  if (place >= 0) {
    const param = `input[${place}]${rest}`;
    return { ...refusal, param, message: refusal.message.replaceAll(whole, () => param) };
  }
  const message = `In the earlier turns that belong to this request: ${refusal.message}`;
  return { ...refusal, param: 'input', message };
}
