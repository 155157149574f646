/** The time of a translated stream grows with its length, not with its square. */
import { expect, it } from 'vitest';
import { createMessageStreamTranslator } from '../../src/providers/translate/messages-to-chat/stream.ts';

const PIECES = 16_000;
const piece = 'words '.repeat(170);
const shell = { id: 'msg_1', model: 'm', stopSequences: [], thoughts: 'shown' } as const;

it.each([
  ['text', { content: piece }],
  ['reasoning', { reasoning_content: piece }],
  ['arguments', { tool_calls: [{ index: 0, id: 'c', function: { name: 'f', arguments: piece } }] }],
])('16 MB of %s take less than 5 seconds', (_what, delta) => {
  const translator = createMessageStreamTranslator(shell);
  const started = performance.now();
  let deltas = 0;
  for (let index = 0; index < PIECES; index += 1) {
    const events = translator.push({ choices: [{ index: 0, delta, finish_reason: null }] });
    deltas += events.filter(({ type }) => type === 'content_block_delta').length;
  }
  expect(deltas).toBe(PIECES);
  expect(performance.now() - started).toBeLessThan(5_000);
});
