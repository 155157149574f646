/** Log probabilities repeat the text of an answer token by token: they are removed when the text changes. */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';

export function withoutLogprobs(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(withoutLogprobs);
  if (!isObject(answer) || isExactNumber(answer)) return answer;
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => {
      if (name !== 'logprobs') return [name, withoutLogprobs(value)];
      return [name, Array.isArray(value) ? [] : null];
    }),
  );
}
