/** Texts of the legacy completions dialect and of embeddings requests. */
import { isObject } from '../../../json/is-object.ts';
import type { SystemChange } from '../guarded-text.ts';
import { type BodyTexts, TextCollector } from './body-texts.ts';
import type { GuardedBody } from './guarded-body.ts';
import { identifierTexts } from './message-parts.ts';

export const completionsRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    textsOrTokens(into, body['prompt'], 'prompt');
    into.text(body['suffix'], ['suffix'], { role: 'user', kind: 'text', message: -1 });
    identifierTexts(into, body);
    return into;
  },
  /** There is no system message: the text stands in front of each prompt. */
  withSystem(body, { text }: SystemChange) {
    if (!isObject(body)) return body;
    const before = (prompt: unknown) => (typeof prompt === 'string' ? `${text}\n\n${prompt}` : prompt);
    const { prompt } = body;
    return { ...body, prompt: Array.isArray(prompt) ? prompt.map(before) : before(prompt) };
  },
};

export const completionsAnswerBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body) || !Array.isArray(body['choices'])) return into;
    for (const [index, choice] of body['choices'].entries()) {
      if (!isObject(choice)) continue;
      into.text(choice['text'], ['choices', index, 'text'], { role: 'assistant', kind: 'text', message: index });
    }
    return into;
  },
};

export const embeddingsRequestBody: GuardedBody = {
  texts(body): BodyTexts {
    const into = new TextCollector();
    if (!isObject(body)) return into;
    textsOrTokens(into, body['input'], 'input');
    identifierTexts(into, body);
    return into;
  },
};

function textsOrTokens(into: TextCollector, value: unknown, name: string): void {
  if (typeof value === 'string') into.text(value, [name], { role: 'user', kind: 'text', message: 0 });
  if (!Array.isArray(value)) return;
  for (const [index, one] of value.entries()) {
    if (typeof one === 'string') into.text(one, [name, index], { role: 'user', kind: 'text', message: index });
  }
  if (value.some((one) => typeof one !== 'string')) into.unread([name]);
}
